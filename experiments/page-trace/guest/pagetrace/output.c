// SPDX-License-Identifier: MIT
/*
 * A packed trace is blocks of up to 32,768 records, each a struct block and then columns without gaps:
 *
 *   uint64_t page[pages], ip[ips]	those that are new; numbered from 0 on in the order of their coming
 *   uint64_t time[times]		times between records that are too long for `delta`
 *   uint32_t tid[records]		with THREADS; else all are the block's
 *   uint16_t delta[records]		ns since the record before; LONG: the next of `time`
 *   uint8_t or uint16_t page[records], ip[records]	numbers of pages and of instructions; 16 bits with WIDE_*
 *   uint8_t kind[records]		type << 4 | flags
 *
 * With ANEW the numbers of pages and instructions begin anew. So a record takes 5 to 8 bytes instead of 24, and its
 * columns are read as arrays. When the file is as large as it may be, records are left out; its last block then has one
 * record of type LOST with the number of visits.
 */
#include "output.h"

enum {
	RECORDS = 1 << 15,
	/* Entries of a dictionary, one of 64 bits taking no page and no instruction. */
	ENTRIES = 1 << 16, SLOTS = 1 << 18,
	LONG = 0xffff,
	ANEW = 1, THREADS = 2, WIDE_PAGES = 4, WIDE_IPS = 8,
};

struct block {
	uint32_t bytes;		/* of the columns */
	uint32_t records;
	uint32_t pages, ips, times;
	uint32_t flags;
	uint32_t tid;
	uint32_t zero;
	uint64_t time_ns;	/* of the first record, whose delta is 0 */
};

_Static_assert(sizeof(struct block) == 40, "a block's header is 40 bytes");

struct dictionary {
	uint64_t key[SLOTS];	/* + 1; 0: free */
	uint16_t number[SLOTS];
	uint64_t fresh[RECORDS];
	uint32_t known, n_fresh;
};

static struct dictionary pages, ips;
static struct block block;
static uint64_t times[RECORDS], last_ns;
static uint32_t tids[RECORDS];
static uint16_t delta[RECORDS], page_number[RECORDS], ip_number[RECORDS];
static uint8_t kinds[RECORDS], narrow[RECORDS];

static uint16_t number_of(struct dictionary *dictionary, uint64_t value)
{
	size_t slot = value * 0x9e3779b97f4a7c15ull >> 46;

	while (dictionary->key[slot] && dictionary->key[slot] != value + 1)
		slot = (slot + 1) & (SLOTS - 1);
	if (!dictionary->key[slot]) {
		dictionary->key[slot] = value + 1;
		dictionary->number[slot] = (uint16_t)dictionary->known++;
		dictionary->fresh[dictionary->n_fresh++] = value;
	}
	return dictionary->number[slot];
}

static void forget(struct dictionary *dictionary)
{
	memset(dictionary->key, 0, sizeof(dictionary->key));
	dictionary->known = 0;
}

static void put(struct output *output, const void *data, size_t size)
{
	size_t done;

	if (output->error || !size)
		return;
	done = write_all(output->fd, data, size);
	if (done != size)
		output->error = errno;
	output->written += done;
}

static void put_numbers(struct output *output, const uint16_t *number, bool wide)
{
	if (!wide)
		for (uint32_t i = 0; i < block.records; i++)
			narrow[i] = (uint8_t)number[i];
	put(output, wide ? (const void *)number : narrow, block.records * (wide ? sizeof(*number) : sizeof(*narrow)));
}

/* Whether that many bytes more still fit, with a last block behind them that says what was left out. */
static bool fits(const struct output *output, uint64_t bytes)
{
	const uint64_t last = sizeof(struct block) + 2 * sizeof(uint64_t) + 8;

	return !output->most || sizeof(struct file_header) + output->written + bytes + last <= output->most;
}

static uint64_t visits_in_block(void)
{
	uint64_t visits = 0;

	for (uint32_t i = 0; i < block.records; i++)
		visits += kinds[i] >> 4 == PAGE_TRACE_T_VISIT;
	return visits;
}

static void end_block(struct output *output, bool last)
{
	const bool wide_pages = pages.known > 256, wide_ips = ips.known > 256;

	if (!block.records)
		return;
	block.pages = pages.n_fresh;
	block.ips = ips.n_fresh;
	block.flags |= (wide_pages ? WIDE_PAGES : 0) | (wide_ips ? WIDE_IPS : 0);
	block.bytes = (uint32_t)(8 * (block.pages + block.ips + block.times) +
				 block.records * ((block.flags & THREADS ? 4 : 0) + 5 + wide_pages + wide_ips));
	if (last || (!output->left_out && fits(output, sizeof(block) + block.bytes))) {
		put(output, &block, sizeof(block));
		put(output, pages.fresh, 8 * block.pages);
		put(output, ips.fresh, 8 * block.ips);
		put(output, times, 8 * block.times);
		if (block.flags & THREADS)
			put(output, tids, 4 * block.records);
		put(output, delta, 2 * block.records);
		put_numbers(output, page_number, wide_pages);
		put_numbers(output, ip_number, wide_ips);
		put(output, kinds, block.records);
	} else {
		output->left_out += visits_in_block();
	}
	pages.n_fresh = ips.n_fresh = 0;
	block = (struct block){ 0 };
	/* Where the next block may not have numbers for all that it brings. */
	if (pages.known + RECORDS > ENTRIES || ips.known + RECORDS > ENTRIES) {
		forget(&pages);
		forget(&ips);
		block.flags = ANEW;
	}
}

static void pack(struct output *output, const struct page_trace_record *record)
{
	const uint64_t head = record->word[0], ns = head >> 12;
	const uint32_t tid = (uint32_t)((record->word[1] & 0xfff) | record->word[2] >> 48 << 12), i = block.records++;
	uint64_t since;

	if (!i) {
		block.tid = tid;
		block.time_ns = last_ns = ns;
	}
	since = ns - last_ns;
	last_ns = ns;
	if (since >= LONG) {
		times[block.times++] = since;
		since = LONG;
	}
	delta[i] = (uint16_t)since;
	tids[i] = tid;
	if (tid != block.tid)
		block.flags |= THREADS;
	page_number[i] = number_of(&pages, record->word[1] >> 12);
	ip_number[i] = number_of(&ips, record->word[2] & ((1ull << 48) - 1));
	kinds[i] = (uint8_t)((head >> 4 & 0xf0) | (head & 0xf));
	if (block.records == RECORDS)
		end_block(output, false);
}

static void put_records(struct output *output, const struct page_trace_record *record, size_t n)
{
	size_t room = n;

	if (output->most) {
		const uint64_t used = sizeof(struct file_header) + output->written + sizeof(*record);

		room = output->most > used ? (output->most - used) / sizeof(*record) : 0;
	}
	if (output->left_out)
		room = 0;
	room = room < n ? room : n;
	put(output, record, room * sizeof(*record));
	for (size_t i = room; i < n; i++) {
		output->left_out += (record[i].word[0] >> 8 & 0xf) == PAGE_TRACE_T_VISIT;
		last_ns = record[i].word[0] >> 12;
	}
}

void output_put(struct output *output, const struct page_trace_record *record, size_t n)
{
	if (!output->packed) {
		put_records(output, record, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		pack(output, &record[i]);
}

void output_end(struct output *output)
{
	struct page_trace_record lost;

	if (output->packed)
		end_block(output, false);
	lost = (struct page_trace_record){ { last_ns << 12 | PAGE_TRACE_T_LOST << 8, output->left_out << 12, 0 } };
	if (!output->left_out)
		return;
	if (!output->packed) {
		put(output, &lost, sizeof(lost));
		return;
	}
	/* Numbers of what was left out are not in the file. */
	forget(&pages);
	forget(&ips);
	block.flags = ANEW;
	pack(output, &lost);
	end_block(output, true);
}
