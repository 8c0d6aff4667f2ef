// SPDX-License-Identifier: MIT
/* From a page trace to the order in which pages are first visited. */
#include "advised.h"
#include "page_trace.h"

enum { AT_ONCE = 4096, LEAST_PLACES = 1 << 12 };

/* The pages so far, in order, and a hash table of them: open addressing, never more than half full. */
static uint64_t *pages, *places;
static size_t n_pages, n_places;

static void *space(void *old, size_t bytes)
{
	void *at = realloc(old, bytes);

	if (!at)
		die("no memory for a plan of %zu pages", n_pages);
	return at;
}

/* Whether it was not there. */
static bool enter(uint64_t page)
{
	size_t at = (page * 0x9e3779b97f4a7c15ull >> 20) & (n_places - 1);

	while (places[at] && places[at] != page)
		at = (at + 1) & (n_places - 1);
	if (places[at])
		return false;
	places[at] = page;
	return true;
}

static void grow(void)
{
	n_places = n_places ? 2 * n_places : LEAST_PLACES;
	places = space(places, n_places * sizeof(*places));
	pages = space(pages, n_places / 2 * sizeof(*pages));
	memset(places, 0, n_places * sizeof(*places));
	for (size_t i = 0; i < n_pages; i++)
		enter(pages[i]);
}

void write_plan(FILE *trace, const char *path)
{
	static struct page_trace_record records[AT_ONCE];
	const int fd = create_or_die(path);
	size_t n;

	grow();
	while ((n = fread(records, sizeof(*records), AT_ONCE, trace)) > 0) {
		for (size_t i = 0; i < n; i++) {
			const uint64_t page = records[i].word[1] >> 12;

			if ((records[i].word[0] >> 8 & 0xf) != PAGE_TRACE_T_VISIT || !enter(page))
				continue;
			pages[n_pages++] = page;
			if (2 * n_pages == n_places)
				grow();
		}
	}
	write_or_die(fd, path, pages, n_pages * sizeof(*pages));
	close(fd);
}

struct plan plan_of(const char *path)
{
	const int fd = open_or_die(path, O_RDONLY);
	const off_t bytes = lseek(fd, 0, SEEK_END);
	struct plan plan = { 0 };

	n_pages = (size_t)bytes / sizeof(*pages);
	pages = space(NULL, (size_t)bytes + 1);
	if (pread(fd, pages, (size_t)bytes, 0) != bytes)
		die_errno("%s", path);
	close(fd);
	/* Pages beside each other, one after the other, are one range. */
	plan.ranges = space(NULL, (n_pages + 1) * sizeof(*plan.ranges));
	for (size_t i = 0; i < n_pages; i++) {
		if (i && pages[i] == pages[i - 1] + 1)
			plan.ranges[plan.n - 1].iov_len += PAGE;
		else
			plan.ranges[plan.n++] = (struct iovec){ (void *)(uintptr_t)(pages[i] << 12), PAGE };
	}
	free(pages);
	return plan;
}
