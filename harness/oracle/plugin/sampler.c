/*
 * The ideal profiler: a timer on the virtual clock with a jittered period, which fires between two instructions,
 * interrupts on or off, and reads where the CPU is. The same timer can send NMIs instead, and it ties the
 * instruction counts of the page sequence to the virtual clock.
 *
 * samples.bin: per sample 64 bits each of virtual time, address, and region (0 none, else its number plus one)
 * | context << 32 | interrupts on << 40 | CPU halted << 41.
 */
#include "oracle.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { TIMER_BYTES = 512, MAX_HALTS = 64, ANCHOR_NS = 10000000 };
enum { FLAG_INTERRUPTS = 1 << 9 };

static uint64_t timer[TIMER_BYTES / 8]; /* a QEMUTimer and room to spare */
static uint64_t state;
static int64_t due;
static bool started;
static uint64_t behind_hlt[MAX_HALTS];
static size_t n_halts;
static uint64_t n_samples, n_nmis, n_refused;
static FILE *sink, *nmi_sink;

static bool timed(void)
{
	return on(MODE_SAMPLER) || on(MODE_NMI) || (on(MODE_PAGES) && timer_mod_ns && shift >= 0);
}

static void sample(int64_t now)
{
	uint64_t ip = read_register(REGISTER_IP), flags = read_register(REGISTER_FLAGS);
	bool idle = false;
	uint64_t record[3];

	for (size_t i = 0; i < n_halts; i++)
		idle |= behind_hlt[i] == ip;
	record[0] = (uint64_t)now;
	record[1] = ip;
	record[2] = (open_region[KIND_WORKLOAD] ? region[KIND_WORKLOAD] : 0) |
		    (uint64_t)(ip < places.kernel ? IN_USER : functions_context()) << 32 |
		    (uint64_t)!!(flags & FLAG_INTERRUPTS) << 40 | (uint64_t)idle << 41;
	if (fwrite(record, sizeof(record), 1, sink) != 1)
		die("samples.bin: %s", strerror(errno));
	n_samples++;
}

static void send_nmi(int64_t now)
{
	void *error = NULL;
	uint64_t record[2] = { (uint64_t)now, read_register(REGISTER_IP) };

	nmi_monitor_handle(0, &error);
	if (error) {
		n_refused++;
		if (error_free)
			error_free(error);
		return;
	}
	n_nmis++;
	if (fwrite(record, sizeof(record), 1, nmi_sink) != 1)
		die("nmis.bin: %s", strerror(errno));
}

static void on_timer(void *data)
{
	int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
	bool sampling = on(MODE_SAMPLER) || on(MODE_NMI);
	uint64_t mean = sampling ? period_ns : ANCHOR_NS;

	(void)data;
	if (!due) { /* armed by sampler_start: from here on, the clock is known */
		due = now + (int64_t)(random_u64(&state) % mean);
		timer_mod_ns(timer, due);
		return;
	}
	pages_anchor(now);
	if (on(MODE_SAMPLER) && open_region[KIND_WORKLOAD])
		sample(now);
	if (on(MODE_NMI) && open_region[KIND_WORKLOAD])
		send_nmi(now);
	/* Uniform over half to one and a half periods. */
	due += (int64_t)(mean / 2 + random_u64(&state) % mean);
	timer_mod_ns(timer, due);
}

/*
 * At the first mark: a moment of the guest's. A moment of the host's, such as the first translation, would let the
 * samples depend on where a saved state was stopped. The clock cannot be read in a callback of an instruction, but
 * a time that is over makes the timer fire behind the block that the CPU is in.
 */
void sampler_start(void)
{
	if (started || !timed())
		return;
	started = true;
	timer_init_full(timer, NULL, QEMU_CLOCK_VIRTUAL, 1, 0, on_timer, NULL);
	timer_mod_ns(timer, 1);
}

/* Files are there even when no mark ever comes. */
void sampler_open(void)
{
	state = seed;
	if (on(MODE_SAMPLER))
		sink = output("samples.bin");
	if (on(MODE_NMI))
		nmi_sink = output("nmis.bin");
}

void sampler_translate(uint64_t address, const uint8_t *code, size_t size)
{
	if (!timed() || address < places.kernel || size != 1 || code[0] != 0xf4)
		return;
	for (size_t i = 0; i < n_halts; i++)
		if (behind_hlt[i] == address + 1)
			return;
	if (n_halts < MAX_HALTS)
		behind_hlt[n_halts++] = address + 1;
}

void sampler_report(FILE *json)
{
	if (on(MODE_SAMPLER))
		fprintf(json, " \"sampler\": {\"samples\": %" PRIu64 "},\n", n_samples);
	if (on(MODE_NMI))
		fprintf(json, " \"nmi\": {\"sent\": %" PRIu64 ", \"refused\": %" PRIu64 "},\n", n_nmis, n_refused);
}

void sampler_finish(void)
{
	if ((sink && fclose(sink)) || (nmi_sink && fclose(nmi_sink)))
		die("samples.bin: %s", strerror(errno));
}
