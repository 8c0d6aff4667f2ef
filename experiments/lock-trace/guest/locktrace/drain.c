// SPDX-License-Identifier: MIT
#include "drain.h"

#include <sys/ioctl.h>
#include <sys/mman.h>

enum {
	WINDOW = 32 << 20,
	MOST_SAMPLES = 1 << 15,
};

_Static_assert(sizeof(struct lock_trace_event) == 64, "an event is 64 bytes");
_Static_assert(WINDOW % sizeof(struct lock_trace_event) == 0, "whole events in a window");

static void drain_failed(struct drain *drain, const char *what)
{
	drain->failed = what;
	drain->error = errno;
}

/* The file's next window, all of it in memory. */
static bool next_window(struct drain *drain)
{
	int error;

	if (drain->window)
		munmap(drain->window, WINDOW);
	drain->window = NULL;
	drain->begin = drain->size;
	error = posix_fallocate(drain->file, drain->begin, WINDOW);
	if (error) {
		errno = error;
		drain_failed(drain, "events.bin");
		return false;
	}
	drain->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, drain->file,
			     drain->begin);
	if (drain->window == MAP_FAILED) {
		drain->window = NULL;
		drain_failed(drain, "mapping events.bin");
		return false;
	}
	return true;
}

static uint64_t over_streams(const __u64 *counts)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < LOCK_TRACE_STREAMS; i++)
		sum += counts[i];
	return sum;
}

static void take_sample(struct drain *drain, uint64_t now)
{
	struct lock_trace_status status;
	uint32_t low, high;

	drain->next_ns = now + drain->interval_ns;
	if (ioctl(drain->device, LOCK_TRACE_STATUS, &status))
		return;
	if (drain->count == MOST_SAMPLES) {
		/* Every second one from now on. */
		for (unsigned int i = 0; i < MOST_SAMPLES / 2; i++)
			drain->samples[i] = drain->samples[2 * i];
		drain->count /= 2;
		drain->interval_ns *= 2;
	}
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	drain->samples[drain->count++] = (struct sample){
		.time = (uint64_t)high << 32 | low,
		.events = status.events,
		.kept = over_streams(status.kept),
		.dropped = over_streams(status.dropped),
		.written = over_streams(status.written),
		.lost = over_streams(status.lost),
		.drained = drain->size / EVENT,
	};
}

static void drain_wait(const struct drain *drain, uint64_t now)
{
	struct timespec until = { .tv_sec = drain->next_ns / 1000000000, .tv_nsec = drain->next_ns % 1000000000 };

	if (now < drain->next_ns)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Read what is there; false when there is nothing more, now or (if the trace has stopped) at all. */
static bool drain_some(struct drain *drain)
{
	uint64_t used = drain->size - drain->begin;
	ssize_t size;

	if (used == WINDOW) {
		if (!next_window(drain))
			return false;
		used = 0;
	}
	size = read(drain->device, drain->window + used, WINDOW - used);
	if (size > 0) {
		drain->size += size;
		return true;
	}
	if (size < 0 && errno == EINTR)
		return true;
	if (size < 0 && errno != EAGAIN)
		drain_failed(drain, "reading the trace");
	return false;
}

static void *drain_thread(void *argument)
{
	struct drain *drain = argument;
	bool stopped;

	do {
		uint64_t now = now_ns();

		/* Before the read: what comes after the stop is read by the last turn. */
		stopped = __atomic_load_n(&drain->stop, __ATOMIC_ACQUIRE);
		if (now >= drain->next_ns || stopped)
			take_sample(drain, now);
		if (!drain->failed && (!drain->late || stopped))
			while (drain_some(drain))
				;
		if (!stopped)
			drain_wait(drain, now_ns());
	} while (!stopped);
	take_sample(drain, now_ns());
	return NULL;
}

void drain_prepare(struct drain *drain, const char *folder)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/events.bin", folder);
	drain->file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (drain->file < 0)
		die_errno("%s", path);
	drain->samples = mmap(NULL, MOST_SAMPLES * sizeof(*drain->samples), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (drain->samples == MAP_FAILED)
		die_errno("memory for samples");
	if (!next_window(drain))
		die_with(EXIT_TOOL, drain->error, "%s", drain->failed);
}

void drain_begin(struct drain *drain)
{
	int error = pthread_create(&drain->thread, NULL, drain_thread, drain);

	if (error)
		die_with(EXIT_TOOL, error, "a thread");
}

void drain_end(struct drain *drain, const char *folder)
{
	FILE *file;

	__atomic_store_n(&drain->stop, true, __ATOMIC_RELEASE);
	pthread_join(drain->thread, NULL);
	if (drain->window)
		munmap(drain->window, WINDOW);
	if (ftruncate(drain->file, drain->size) | close(drain->file))
		die_errno("%s/events.bin", folder);
	file = create_in(folder, "fill.tsv");
	fprintf(file, "time\tevents\tkept\tdropped\twritten\tlost\tdrained\n");
	for (unsigned int i = 0; i < drain->count; i++) {
		const struct sample *sample = &drain->samples[i];

		fprintf(file, "%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n", (unsigned long long)sample->time,
			(unsigned long long)sample->events, (unsigned long long)sample->kept,
			(unsigned long long)sample->dropped, (unsigned long long)sample->written,
			(unsigned long long)sample->lost, (unsigned long long)sample->drained);
	}
	close_or_die(file, "fill.tsv");
}
