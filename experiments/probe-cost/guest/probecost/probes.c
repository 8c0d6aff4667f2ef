// SPDX-License-Identifier: MIT
#include "probes.h"
#include "keeper.h"
#include "work.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A sample has at most MOST_SAMPLE bytes. */
enum { SAMPLE_PAGES = 256, INSTANCE_KB = 512, ENDBR = 4, OPTIMISER_NS = 300000000, MOST_SAMPLE = 1280 };

struct probe probes[MAX_PROBES];
int n_probes;
static int instances_made;

bool is(const struct probe *probe, const char *prefix)
{
	return !strncmp(probe->provider, prefix, strlen(prefix));
}

bool is_user(const struct probe *probe)
{
	return is(probe, "uprobe") || is(probe, "uretprobe") || is(probe, "usdt");
}

static bool is_kprobe(const struct probe *probe)
{
	return is(probe, "kprobe") || is(probe, "kretprobe");
}

/* Has a trace event of its own that must be made first; fprobe has one to be counted by. */
static bool is_dynamic(const struct probe *probe)
{
	return is_user(probe) || is_kprobe(probe) || is(probe, "fprobe");
}

/* None of them is the kernel's own: on a host of somebody's that may be in use. */
const char *in_instance(int number, const char *format, const char *event)
{
	static char path[200];
	int n = snprintf(path, sizeof(path), "instances/" GROUP "%d/", number);

	snprintf(path + n, sizeof(path) - (size_t)n, format, event);
	return path;
}

/* Instances are made once: each one makes a folder for every event there is. */
static void make_instances(int count)
{
	char text[16];

	for (; instances_made < count; instances_made++) {
		char path[64];

		snprintf(path, sizeof(path), TRACEFS "/instances/" GROUP "%d", instances_made);
		if (TEMP_FAILURE_RETRY(mkdir(path, 0700)) && errno != EEXIST)
			fail("%s: %s", path, strerror(errno));
	}
	snprintf(text, sizeof(text), "%d", INSTANCE_KB);
	for (int i = 0; i < count; i++)
		put(in_instance(i, "buffer_size_kb%s", ""), text, 0);
}

uint64_t file_offset(uint64_t address)
{
	const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
	unsigned long count = getauxval(AT_PHNUM);

	for (unsigned long i = 0; i < count; i++)
		if (header[i].p_type == PT_LOAD && address >= header[i].p_vaddr &&
		    address < header[i].p_vaddr + header[i].p_filesz)
			return address - header[i].p_vaddr + header[i].p_offset;
	die("0x%llx lies in no segment", (unsigned long long)address);
}

static uint64_t user_place(const char *name)
{
	static const struct {
		const char *name;
		void *address;
	} places[] = { { "u_nop", u_nop },	 { "u_push", u_push },	   { "u_step", u_step },
		       { "u_deep", u_deep },	 { "u_frames", u_frames },
		       { "usdt_mark", usdt_mark } };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (!strcmp(places[i].name, name))
			return file_offset((uint64_t)(uintptr_t)places[i].address);
	fail("%s is no place in this program", name);
	return 0;
}

const char *own_path(void)
{
	static char path[128];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[length > 0 ? length : 0] = 0;
	return path;
}

/*
 * Behind endbr64 a function begins with the call of ftrace: there is no instruction at its offset 5. Offsets are meant
 * without it.
 */
static bool behind_endbr(struct probe *probe)
{
	char *offset = strchr(probe->target, '+');
	size_t room = offset ? sizeof(probe->target) - (size_t)(offset - probe->target) : 0;

	if (!offset || errno != EILSEQ)
		return false;
	problem[0] = 0;
	return snprintf(offset, room, "+%lu", strtoul(offset + 1, NULL, 0) + ENDBR) < (int)room;
}

/* Make the trace event of probe `index`. The definition after the target holds fetch arguments and "maxactive=N". */
static void define(struct probe *probe, int index)
{
	const char *arguments = probe->definition;
	char text[640], maxactive[16] = "", returns = strstr(probe->provider, "ret") ? 'r' : 'p';

	if (!strncmp(arguments, "maxactive=", 10)) {
		snprintf(maxactive, sizeof(maxactive), "%d", atoi(arguments + 10));
		arguments += strcspn(arguments, " ");
	}
	snprintf(probe->event, sizeof(probe->event), GROUP "/e%d", index);
	if (is_user(probe)) {
		char semaphore[32] = "";

		if (is(probe, "usdt"))
			snprintf(semaphore, sizeof(semaphore), "(0x%llx)",
				 (unsigned long long)file_offset((uint64_t)(uintptr_t)usdt_semaphore));
		snprintf(text, sizeof(text), "%c:%s %s:0x%llx%s %s", returns, probe->event, own_path(),
			 (unsigned long long)user_place(probe->target), semaphore, arguments);
		put("uprobe_events", text, O_APPEND);
		return;
	}
	for (int tries = 0; tries < 2; tries++) {
		snprintf(text, sizeof(text), "%c%s:%s %s %s", returns, maxactive, probe->event, probe->target, arguments);
		if (put("kprobe_events", text, O_APPEND) || !behind_endbr(probe))
			return;
	}
}

/* Where a kernel function begins; the list of kprobes may call it by another of its names. */
static uint64_t symbol_address(const char *symbol, size_t length)
{
	static struct {
		char name[64];
		uint64_t address;
	} known[32];
	size_t used = 0;
	char line[256], name[200];
	unsigned long long address;
	FILE *symbols;

	for (; used < 31 && known[used].name[0]; used++)
		if (strlen(known[used].name) == length && !strncmp(known[used].name, symbol, length))
			return known[used].address;
	symbols = fopen("/proc/kallsyms", "re");
	while (symbols && fgets(line, sizeof(line), symbols)) {
		if (sscanf(line, "%llx %*c %199s", &address, name) == 2 && strlen(name) == length &&
		    !strncmp(name, symbol, length)) {
			fclose(symbols);
			memcpy(known[used].name, symbol, length);
			known[used].name[length] = 0;
			return known[used].address = address;
		}
	}
	if (symbols)
		fclose(symbols);
	return 0;
}

/* How the kernel says it serves a kprobe: "ftrace", "optimised" or "int3"; empty when it does not know it. */
static const char *kind_of(const struct probe *probe)
{
	static char list[1 << 16];
	size_t length = strcspn(probe->target, "+");
	uint64_t address = symbol_address(probe->target, length);
	char *line = NULL, *end, text[24];

	if (probe->target[length] == '+')
		address += strtoul(probe->target + length + 1, NULL, 0);
	get("/sys/kernel/debug/kprobes/list", list, sizeof(list));
	/* One at a function's begin is moved behind its endbr64. */
	for (int moved = 0; !line && moved <= ENDBR; moved += ENDBR) {
		snprintf(text, sizeof(text), "%llx", (unsigned long long)address + moved);
		line = strstr(list, text);
	}
	if (!line)
		return "";
	end = strchr(line, '\n');
	if (end)
		*end = 0;
	return strstr(line, "[FTRACE]") ? "ftrace" : strstr(line, "[OPTIMIZED]") ? "optimised" : "int3";
}

/* The sysctl that allows or forbids to optimise was set before the probe was. */
static void await_kind(const struct probe *probe)
{
	const char *wanted = is(probe, "kretprobe") ? "ftrace" : strchr(probe->provider, '-') + 1, *kind = "";

	kind = kind_of(probe);
	if (!strcmp(wanted, "optimised"))
		sleep_ns(OPTIMISER_NS); /* the list says so when the optimiser has been asked, not when it has done it */
	if (strcmp(kind, wanted))
		fail("%s is served by %s, not %s", probe->target, *kind ? kind : "nothing", wanted);
}

/*
 * A sampler of the probe's own kind: of the clock, or of its trace event, each of them. A `look` samples the clock by a
 * period of its own, and what is there is not overwritten.
 */
static void start_sampler(struct probe *probe, bool look)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = look ? LOOK_NS : strtoull(probe->target, NULL, 10),
					.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME };

	if (!is(probe, "sample")) {
		char path[160], text[32];

		snprintf(path, sizeof(path), "events/%s/id", probe->event);
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = strtoull(get(path, text, sizeof(text)), NULL, 10);
		attr.sample_period = 1;
		attr.exclude_callchain_user = 1;
	}
	if (probe->n_consumers && (probe->consumers[0].stack || !is(probe, "sample")))
		attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	attr.disabled = 1;
	put("/proc/sys/kernel/perf_cpu_time_max_percent", "0", 0); /* no throttling: what it costs is what is asked */
	probe->sampler = perf_open(&attr);
	if (probe->sampler < 0) {
		fail("perf sampling: %s", strerror(errno));
		return;
	}
	/* Mapped read-only the newest samples overwrite the oldest. */
	if (look)
		probe->ring = mmap(NULL, (1 + SAMPLE_PAGES) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, probe->sampler, 0);
	else
		probe->kept = keep_ring(probe->sampler, (1 + SAMPLE_PAGES) * 4096, PROT_READ);
	if (look ? probe->ring == MAP_FAILED : !probe->kept)
		fail("perf ring: %s", strerror(errno));
	if (is(probe, "sample") && probe->n_consumers && probe->consumers[0].program.used) {
		struct consumer *consumer = &probe->consumers[0];

		consumer->bpf = bpf_program(BPF_PROG_TYPE_PERF_EVENT, 0, &consumer->program, &consumer->ring);
		if (!perf_control(probe->sampler, PERF_EVENT_IOC_SET_BPF, (void *)(intptr_t)consumer->bpf))
			fail("program on samples: %s", strerror(errno));
	}
	if (!perf_control(probe->sampler, PERF_EVENT_IOC_ENABLE, NULL))
		fail("perf sampling: %s", strerror(errno));
}

static enum bpf_prog_type program_type(const struct probe *probe)
{
	return is(probe, "raw-tracepoint")			   ? BPF_PROG_TYPE_RAW_TRACEPOINT
	       : is(probe, "tracepoint") || is(probe, "syscall") ? BPF_PROG_TYPE_TRACEPOINT
								   : BPF_PROG_TYPE_KPROBE;
}

static void start_program(struct probe *probe, struct consumer *consumer)
{
	bool fprobe = is(probe, "fprobe");

	consumer->bpf = bpf_program(program_type(probe), fprobe ? BPF_TRACE_KPROBE_MULTI : 0, &consumer->program,
				    &consumer->ring);
	if (consumer->bpf < 0)
		return;
	if (fprobe) {
		consumer->link = fprobe_link(consumer->bpf, probe->target);
	} else if (is(probe, "raw-tracepoint")) {
		consumer->link = raw_tracepoint(consumer->bpf, strchr(probe->target, '/') + 1);
	} else {
		consumer->event = consumer->program.keeps ? perf_sampled(probe->event) : perf_tracepoint(probe->event);
		if (!perf_control(consumer->event, PERF_EVENT_IOC_SET_BPF, (void *)(intptr_t)consumer->bpf) ||
		    !perf_control(consumer->event, PERF_EVENT_IOC_ENABLE, NULL))
			fail("program on %s: %s", probe->event, strerror(errno));
	}
}

void load_programs(void)
{
	for (int i = 0; i < n_probes; i++)
		for (int c = 0; c < probes[i].n_consumers && !problem[0]; c++) {
			struct consumer *consumer = &probes[i].consumers[c];

			if (consumer->program.used)
				consumer->bpf = bpf_program(is(&probes[i], "sample") ? BPF_PROG_TYPE_PERF_EVENT :
								       program_type(&probes[i]),
							    is(&probes[i], "fprobe") ? BPF_TRACE_KPROBE_MULTI : 0,
							    &consumer->program, &consumer->ring);
		}
}

static void start_consumer(struct probe *probe, int number)
{
	struct consumer *consumer = &probe->consumers[number];
	const char *event = probe->event;

	if (consumer->program.used) {
		start_program(probe, consumer);
		return;
	}
	if (consumer->filter[0] && consumer->record)
		put(in_instance(number, "events/%s/filter", event), consumer->filter, 0);
	if (consumer->hist[0]) {
		char text[320];

		snprintf(text, sizeof(text), "hist:%s%s%s", consumer->hist, consumer->filter[0] ? " if " : "",
			 consumer->filter);
		put(in_instance(number, "events/%s/trigger", event), text, O_APPEND);
	}
	if (consumer->stack) {
		char text[160];

		snprintf(text, sizeof(text), "stacktrace%s%s", consumer->filter[0] ? " if " : "", consumer->filter);
		put(in_instance(number, "events/%s/trigger", event), text, O_APPEND);
	}
	if (consumer->record)
		put(in_instance(number, "events/%s/enable", event), "1", 0);
}

/* Functions that have another name in newer kernels; scripts have the older one. */
static void name_of_today(struct probe *probe)
{
	static const char *const names[][2] = {
		{ "pipe_read", "anon_pipe_read" },
		{ "pipe_write", "anon_pipe_write" },
		{ "do_filp_open", "do_file_open" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(probe->target, names[i][0]) && !symbol_address(names[i][0], strlen(names[i][0])))
			strcpy(probe->target, names[i][1]);
}

void define_all(void)
{
	for (int i = 0; i < n_probes && !problem[0]; i++) {
		if (!is_user(&probes[i]))
			name_of_today(&probes[i]);
		if (is(&probes[i], "kprobe-int3") || is(&probes[i], "kprobe-optimised"))
			put("/proc/sys/debug/kprobes-optimization", is(&probes[i], "kprobe-int3") ? "0" : "1", 0);
		if (is_dynamic(&probes[i]))
			define(&probes[i], i);
		else
			snprintf(probes[i].event, sizeof(probes[i].event), "%s%s",
				 is(&probes[i], "syscall") ? "syscalls/" : "", probes[i].target);
	}
}

void start_one(struct probe *probe, int number)
{
	make_instances(number + 1);
	if (number < 0 || is(probe, "sample") || probe->consumers[number].program.used)
		start_sampler(probe, true);
	else
		start_consumer(probe, number);
	if (is_kprobe(probe) && !problem[0])
		await_kind(probe); /* a jump leads to another stack than an int3 */
	/* What was fired meanwhile, by reading how the probe is served too, is none of the workload's. */
	if (number >= 0)
		put(in_instance(number, "trace%s", ""), "", O_TRUNC);
	if (probe->ring && probe->ring != MAP_FAILED)
		((struct perf_event_mmap_page *)probe->ring)->data_tail =
			((struct perf_event_mmap_page *)probe->ring)->data_head;
}

uint64_t sampled_until(const struct probe *probe)
{
	const struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)probe->ring;

	if (probe->kept)
		return kept_until(probe->sampler);
	return page && page != MAP_FAILED ? page->data_head : 0;
}

static void frames_between(struct probe *probe, uint64_t at, uint64_t behind)
{
	const char *data = probe->ring + 4096;
	uint64_t samples = 0, inside = 0, kernel = 0, user = 0;

	while (at < behind && at + MOST_SAMPLE < SAMPLE_PAGES * 4096) {
		const struct perf_event_header *header = (const struct perf_event_header *)(data + at);
		/* ip, tid and time come before the number of entries, and those. */
		const uint64_t *chain = (const uint64_t *)(header + 1) + 3;
		uint64_t *counted = &kernel;

		if (header->type == PERF_RECORD_SAMPLE) {
			samples++;
			for (uint64_t i = 1; i <= chain[0] && i < MOST_SAMPLE / 8; i++)
				if (chain[i] >= PERF_CONTEXT_MAX)
					inside += chain[i] == PERF_CONTEXT_KERNEL,
					counted = chain[i] == PERF_CONTEXT_USER ? &user : &kernel;
				else
					++*counted;
		}
		at += header->size;
	}
	probe->frames = samples ? (double)kernel / (double)samples : 0;
	probe->user_frames = samples ? (double)user / (double)samples : 0;
	probe->in_kernel = samples ? (double)inside / (double)samples : 0;
}

static int times_in(const char *text, const char *word)
{
	int times = 0;

	for (const char *at = text; (at = strstr(at, word)); at++)
		times++;
	return times;
}

void read_sizes(void)
{
	static char text[1 << 14];

	for (int i = 0; i < n_probes; i++) {
		char path[160];

		if (is(&probes[i], "sample"))
			continue;
		snprintf(path, sizeof(path), "events/%s/format", probes[i].event);
		get(path, text, sizeof(text));
		for (const char *at = text; (at = strstr(at, "offset:")); at++) {
			long end = number_after(at, "offset:") + number_after(at, "size:");

			probes[i].size = end > probes[i].size ? end : probes[i].size;
		}
		if (is(&probes[i], "syscall")) {
			probes[i].arrays = times_in(text, "__print_dynamic_array(");
			probes[i].texts = times_in(text, "__data_loc") - probes[i].arrays;
		}
	}
}

void start_all(void)
{
	int most = 1;

	for (int i = 0; i < n_probes; i++)
		most = probes[i].n_consumers > most ? probes[i].n_consumers : most;
	make_instances(most);
	for (int i = 0; i < most; i++)
		put(in_instance(i, "trace%s", ""), "", O_TRUNC);
	for (int i = 0; i < n_probes && !problem[0]; i++) {
		if (is(&probes[i], "sample")) {
			start_sampler(&probes[i], false);
			continue;
		}
		for (int c = 0; c < probes[i].n_consumers && !problem[0]; c++)
			start_consumer(&probes[i], c);
	}
	for (int i = 0; i < n_probes && !problem[0]; i++)
		if (is_kprobe(&probes[i]))
			await_kind(&probes[i]);
}

void sampled_frames(struct probe *probe)
{
	frames_between(probe, ((struct perf_event_mmap_page *)probe->ring)->data_tail, sampled_until(probe));
}

void found_frames(struct probe *probe, uint64_t from, uint64_t until)
{
	double *told[] = { &probe->frames, &probe->user_frames, &probe->in_kernel }, looked[3];

	if (!until || until > SAMPLE_PAGES * 4096)
		return; /* the first ones are overwritten */
	probe->ring = mmap(NULL, (1 + SAMPLE_PAGES) * 4096, PROT_READ, MAP_SHARED, probe->sampler, 0);
	if (probe->ring == MAP_FAILED) {
		fail("perf ring: %s", strerror(errno));
		return;
	}
	for (int i = 0; i < 3; i++)
		looked[i] = *told[i];
	frames_between(probe, from, until);
	for (int i = 0; i < 3; i++)
		probe->found[i] = *told[i], *told[i] = looked[i];
}

static void close_once(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = 0;
}

void stop_all(void)
{
	char was[sizeof(problem)];

	memcpy(was, problem, sizeof(was)); /* what cannot be undone was never done: no problem of its own */
	for (int i = 0; i < n_probes; i++) {
		struct probe *probe = &probes[i];

		close_once(&probe->counter);
		if (probe->ring && probe->ring != MAP_FAILED)
			munmap(probe->ring, (1 + SAMPLE_PAGES) * 4096);
		probe->ring = NULL;
		if (probe->kept)
			drop_ring(probe->sampler);
		probe->kept = false;
		close_once(&probe->sampler);
		for (int c = 0; c < probe->n_consumers; c++) {
			struct consumer *consumer = &probe->consumers[c];
			char text[320];

			close_once(&consumer->link);
			close_once(&consumer->passes);
			close_once(&consumer->event);
			close_once(&consumer->bpf);
			ring_close(&consumer->ring);
			if (consumer->program.used || is(probe, "sample") || !probe->event[0])
				continue;
			if (consumer->record)
				put(in_instance(c, "events/%s/enable", probe->event), "0", 0);
			if (consumer->hist[0]) {
				snprintf(text, sizeof(text), "!hist:%s%s%s", consumer->hist,
					 consumer->filter[0] ? " if " : "", consumer->filter);
				put(in_instance(c, "events/%s/trigger", probe->event), text, O_APPEND);
			}
			if (consumer->stack)
				put(in_instance(c, "events/%s/trigger", probe->event), "!stacktrace", O_APPEND);
			if (consumer->filter[0])
				put(in_instance(c, "events/%s/filter", probe->event), "0", 0);
		}
		if (is_dynamic(probe) && probe->event[0]) {
			char text[128];

			snprintf(text, sizeof(text), "-:%s", probe->event);
			put(is_user(probe) ? "uprobe_events" : "kprobe_events", text, O_APPEND);
		}
	}
	memcpy(problem, was, sizeof(problem));
}

void start_counting(void)
{
	for (int i = 0; i < n_probes && !problem[0]; i++) {
		struct probe *probe = &probes[i];

		if (is(probe, "sample"))
			continue;
		probe->counter = perf_tracepoint(probe->event);
		for (int c = 0; c < probe->n_consumers && !problem[0]; c++) {
			struct consumer *consumer = &probe->consumers[c];

			if (!consumer->filter[0])
				continue;
			consumer->passes = perf_tracepoint(probe->event);
			if (!perf_control(consumer->passes, PERF_EVENT_IOC_SET_FILTER, consumer->filter))
				fail("filter %s: %s", consumer->filter, strerror(errno));
		}
	}
}

void read_hits(void)
{
	static char text[1 << 14];

	for (int i = 0; i < n_probes; i++) {
		struct probe *probe = &probes[i];
		char name[32], *line;

		probe->hits = probe->misses = -1;
		if (!is_dynamic(probe) || is(probe, "fprobe"))
			continue;
		get(is_user(probe) ? "uprobe_profile" : "kprobe_profile", text, sizeof(text));
		snprintf(name, sizeof(name), "e%d ", i);
		line = strstr(text, name);
		if (!line)
			continue;
		line += strlen(name);
		probe->hits = strtoll(line, &line, 10);
		if (!is_user(probe))
			probe->misses = strtoll(line, NULL, 10);
	}
}
