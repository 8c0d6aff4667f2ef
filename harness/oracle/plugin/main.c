/*
 * The oracle: exact ground truth about a guest, taken from outside it by a QEMU TCG plugin.
 *
 * Arguments: out=FOLDER, places=FILE (the guest's kernel, see read_places), modes=WORD+WORD..., seed=N,
 * period_ns=N (mean of the sampler's), shift=N (of icount; -1 without it), counters=FILE (memory of the device).
 *
 * What is measured lies between marks that guest programs execute; their kinds are in oracle.h. Everything goes
 * to files in FOLDER, oracle.json last: without it nothing else there counts.
 */
#include "oracle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct places places;
bool wanted[MODES];
const char *absent[MODES];
uint64_t ticks, seed = 1, period_ns = 1000000;
int shift = -1;
unsigned int region[KINDS];
bool open_region[KINDS];

static const char *const mode_names[MODES] = { "functions", "pages", "sampler", "nmi", "locks", "counters" };
static const char *folder;
static struct byte_array *bytes;
static unsigned int mismatched_marks;
static bool marks_from_user = true;

EXPORT int qemu_plugin_version = 1;

_Noreturn void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("krepro oracle: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_exit(1);
}

FILE *output(const char *name)
{
	char path[4096];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		die("%s: path too long", name);
	file = fopen(path, "wb");
	if (!file)
		die("%s: %s", path, strerror(errno));
	return file;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t random_u64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

bool registers_known(void)
{
	return qemu_get_cpu && x86_cpu_gdb_read_register && g_byte_array_sized_new && g_byte_array_set_size;
}

static uint64_t read_register_of(unsigned int cpu, int number)
{
	uint64_t value = 0;
	int size;

	g_byte_array_set_size(bytes, 0);
	size = x86_cpu_gdb_read_register(qemu_get_cpu((int)cpu), bytes, number);
	memcpy(&value, bytes->data, size > 0 && size <= 8 ? (size_t)size : 0);
	return value;
}

uint64_t read_register(int number)
{
	return read_register_of(0, number);
}

/* -- marks ------------------------------------------------------------------------------------------- */

static void on_mark(unsigned int cpu, void *data)
{
	unsigned int mark = (unsigned int)(uintptr_t)data;
	enum kind kind = mark >> 8 & 0xff;
	enum operation operation = mark & 0xff;

	if (registers_known() && (read_register_of(cpu, REGISTER_CS) & 3) != 3)
		marks_from_user = false;
	sampler_start();
	switch (operation) {
	case OP_BEGIN:
	case OP_END:
		if (open_region[kind] == (operation == OP_BEGIN)) {
			mismatched_marks++;
			return;
		}
		region[kind] += operation == OP_BEGIN;
		open_region[kind] = operation == OP_BEGIN;
		functions_region(kind, operation == OP_BEGIN);
		locks_region(kind, operation == OP_BEGIN);
		counters_region(cpu, kind, operation == OP_BEGIN);
		break;
	case OP_SELECT:
	case OP_DESELECT:
		pages_select(operation == OP_SELECT, kind == KIND_CHECK);
		break;
	case OP_SELECT_EXEC:
		pages_select_exec();
		break;
	case OP_HOST:
		counters_host();
		break;
	case OPERATIONS:
		break;
	}
}

void check_done(struct check *check, uint64_t counted)
{
	unsigned int i = region[KIND_WORKLOAD]; /* that which comes next */

	if (i >= sizeof(check->least) / sizeof(check->least[0]))
		return;
	if (check->n <= i || counted < check->least[i])
		check->least[i] = counted;
	if (check->n <= i)
		check->n = i + 1;
}

void check_report(const struct check *check, FILE *json)
{
	fputs("[", json);
	for (unsigned int i = 0; i < check->n; i++)
		fprintf(json, "%s%" PRIu64, i ? ", " : "", check->least[i]);
	fputs("]", json);
}

/* nopl disp32(%eax): 0f 1f 80 and the displacement. */
static bool is_mark(const uint8_t *code, size_t size, uint32_t *mark)
{
	uint32_t displacement;

	if (size != 7 || code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return false;
	memcpy(&displacement, code + 3, sizeof(displacement));
	*mark = displacement & 0xffff;
	return (displacement & 0xffff0000u) == MARK && (*mark >> 8) < KINDS && (*mark & 0xff) < OPERATIONS;
}

static void on_cpu(qemu_plugin_id_t id, unsigned int cpu)
{
	(void)id;
	counters_cpu(cpu);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	counters_translate(tb);
	for (size_t i = 0; i < n; i++) {
		enum { PAGE = 1 << PAGE_BITS, LONGEST = 15 };
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		uint32_t mark;

		if (is_mark(code, size, &mark)) { /* itself not part of any region */
			functions_flush();
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)mark);
			continue;
		}
		/*
		 * An instruction that crosses into the next page ends its block before itself, yet QEMU shows it
		 * (cut short, its callbacks never run): it must not be counted along with those before it.
		 */
		if (i == n - 1 && (address & (PAGE - 1)) + LONGEST > PAGE)
			functions_flush();
		functions_translate(insn, address, code, size);
		locks_translate(insn, address, i == 0);
		pages_translate(insn, address, code, size);
		sampler_translate(address, code, size);
	}
	functions_flush();
}

/* -- what the guest's kernel is ---------------------------------------------------------------------- */

/*
 * One fact a line, hexadecimal numbers:
 *   function A ...        functions in ascending order
 *   text END KERNEL       end of the last function; lowest kernel address
 *   entry C LOW HIGH STEP entry points of context C (0 a system call): LOW, LOW + STEP ... below HIGH
 *   returns LOW HIGH      code whose iret, sysexit and sysret leave what an entry entered
 *   softirq LOW HIGH      the function that runs softirqs
 *   task A, switch A, fork A, lock A
 *   exec BEGIN DONE       functions that begin a new address space, and that go on in it
 *   exit GROUP MEMORY     functions that end a whole process, and that give up its memory
 *   stack BYTES, cr3 MASK
 */
static void read_places(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[256];
	uint64_t a, b, c, d;

	if (!file)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		struct places *p = &places;

		if (sscanf(line, "function %" SCNx64, &a) == 1 && p->n_functions < MAX_FUNCTIONS)
			p->functions[p->n_functions++] = a;
		else if (sscanf(line, "text %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->text_end = a, p->kernel = b;
		else if (sscanf(line, "entry %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &a, &b, &c, &d) == 4 &&
			 p->n_entries < MAX_PLACES && a < CONTEXTS && d)
			p->entry[p->n_entries++] = (struct entry){ b, c, d, (enum context)a };
		else if (sscanf(line, "returns %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->returns = (struct range){ a, b };
		else if (sscanf(line, "softirq %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->softirq = (struct range){ a, b };
		else if (sscanf(line, "task %" SCNx64, &a) == 1 && p->n_task < 16)
			p->task[p->n_task++] = a;
		else if (sscanf(line, "switch %" SCNx64, &a) == 1)
			p->switch_to = a;
		else if (sscanf(line, "fork %" SCNx64, &a) == 1)
			p->fork = a;
		else if (sscanf(line, "exec %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->exec_begin = a, p->exec_done = b;
		else if (sscanf(line, "exit %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->exit_group = a, p->exit_memory = b;
		else if (sscanf(line, "stack %" SCNx64, &a) == 1)
			p->stack_bytes = a;
		else if (sscanf(line, "cr3 %" SCNx64, &a) == 1)
			p->cr3_mask = a;
		else if (sscanf(line, "lock %" SCNx64, &a) == 1 && p->n_locks < 64)
			p->lock[p->n_locks++] = a;
		else
			die("%s: not understood: %s", path, line);
	}
	fclose(file);
	if (!places.n_functions || !places.kernel)
		die("%s: no functions", path);
}

/* -- beginning and end ------------------------------------------------------------------------------- */

static void finish(qemu_plugin_id_t id, void *data)
{
	FILE *sink;
	bool first = true;

	(void)id;
	(void)data;
	functions_finish();
	locks_finish();
	pages_finish();
	sampler_finish();
	sink = output("oracle.json");
	fputs("{\"format\": 1,\n \"modes\": {", sink);
	for (int i = 0; i < MODES; i++) {
		if (!wanted[i])
			continue;
		if (absent[i])
			fprintf(sink, "%s\"%s\": \"%s\"", first ? "" : ", ", mode_names[i], absent[i]);
		else
			fprintf(sink, "%s\"%s\": null", first ? "" : ", ", mode_names[i]);
		first = false;
	}
	fprintf(sink, "},\n \"marks\": {\"mismatched\": %u, \"from_user\": %s, \"workloads\": %u, \"laps\": %u},\n",
		mismatched_marks, marks_from_user ? "true" : "false", region[KIND_WORKLOAD], region[KIND_LAP]);
	functions_report(sink);
	pages_report(sink);
	locks_report(sink);
	counters_report(sink);
	sampler_report(sink);
	fprintf(sink, " \"shift\": %d, \"seed\": %" PRIu64 ", \"period_ns\": %" PRIu64 "}\n", shift, seed, period_ns);
	if (fclose(sink))
		die("oracle.json: %s", strerror(errno));
}

static void parse_modes(char *words)
{
	for (char *rest = NULL, *word = strtok_r(words, "+", &rest); word; word = strtok_r(NULL, "+", &rest)) {
		int i = 0;

		while (i < MODES && strcmp(word, mode_names[i]))
			i++;
		if (i == MODES)
			die("unknown mode %s", word);
		wanted[i] = true;
	}
}

/* What this QEMU cannot do, mode by mode. */
static void probe(const struct qemu_info *info, const char *counters)
{
	for (int i = 0; i < MODES; i++) {
		if (!info->system_emulation || strcmp(info->target_name, "x86_64"))
			absent[i] = "QEMU emulates no x86_64 system";
		else if (info->system.smp_vcpus != 1 && i != MODE_COUNTERS)
			absent[i] = "the machine has several CPUs; the oracle counts exactly on one";
	}
	if (!registers_known())
		absent[MODE_FUNCTIONS] = absent[MODE_PAGES] = absent[MODE_SAMPLER] =
			"this QEMU does not export its registers";
	if (!registers_known() || !cpu_memory_rw_debug)
		absent[MODE_LOCKS] = "this QEMU does not export its registers and memory";
	if (!timer_init_full || !timer_mod_ns || !qemu_clock_get_ns)
		absent[MODE_SAMPLER] = absent[MODE_NMI] = "this QEMU does not export its timers";
	if (shift < 0)
		absent[MODE_SAMPLER] = absent[MODE_NMI] = "needs the virtual clock";
	if (!nmi_monitor_handle)
		absent[MODE_NMI] = "this QEMU does not export its NMIs";
	if (wanted[MODE_COUNTERS] && !absent[MODE_COUNTERS])
		absent[MODE_COUNTERS] = counters_open(counters, (unsigned int)info->system.smp_vcpus);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	const char *description = NULL, *counters = NULL;

	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			die("argument %s has no value", argv[i]);
		*value++ = '\0';
		if (!strcmp(argv[i], "out"))
			folder = strdup(value);
		else if (!strcmp(argv[i], "places"))
			description = value;
		else if (!strcmp(argv[i], "counters"))
			counters = value;
		else if (!strcmp(argv[i], "modes"))
			parse_modes(value);
		else if (!strcmp(argv[i], "seed"))
			seed = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "period_ns"))
			period_ns = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "shift"))
			shift = atoi(value);
		else
			die("unknown argument %s", argv[i]);
	}
	if (!folder || !description || period_ns < 1000)
		die("needs out=, places=, and a period_ns of at least 1000");
	read_places(description);
	probe(info, counters);
	if (registers_known())
		bytes = g_byte_array_sized_new(64);
	sampler_open();
	qemu_plugin_register_vcpu_resume_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
