// SPDX-License-Identifier: MIT
/*
 * A B-tree (Bayer, McCreight 1972) of 512-byte nodes, eight a page: n keys in random order go in, then as many are
 * looked up, of which about half are there. Full nodes are split on the way down, so an insertion needs no way back.
 */
#include "work.h"

enum { MIN_KEYS = 15, MAX_KEYS = 2 * MIN_KEYS + 1, NONE = UINT32_MAX };

struct node {
	uint64_t key[MAX_KEYS];
	uint32_t value[MAX_KEYS];
	uint32_t child[MAX_KEYS + 1]; /* of a leaf: NONE */
	uint32_t n;
};

_Static_assert(sizeof(struct node) <= 512, "eight nodes a page");

static union {
	struct node node;
	uint8_t space[512];
} *nodes;
static uint64_t *inserted;
static uint32_t n_nodes, root;

static struct node *node_at(uint32_t i)
{
	return &nodes[i].node;
}

static uint32_t new_node(void)
{
	node_at(n_nodes)->child[0] = NONE;
	return n_nodes++;
}

/* The first key that is not less. */
static uint32_t position(const struct node *node, uint64_t key)
{
	uint32_t low = 0, high = node->n;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (node->key[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void make_room(struct node *node, uint32_t at)
{
	memmove(&node->key[at + 1], &node->key[at], (node->n - at) * sizeof(node->key[0]));
	memmove(&node->value[at + 1], &node->value[at], (node->n - at) * sizeof(node->value[0]));
	if (node->child[0] != NONE)
		memmove(&node->child[at + 2], &node->child[at + 1], (node->n - at) * sizeof(node->child[0]));
	node->n++;
}

/* The full child `at` of `parent` becomes two, with its middle key between them. */
static void split(struct node *parent, uint32_t at)
{
	struct node *left = node_at(parent->child[at]);
	const uint32_t right_number = new_node();
	struct node *right = node_at(right_number);

	right->n = MIN_KEYS;
	memcpy(right->key, &left->key[MIN_KEYS + 1], MIN_KEYS * sizeof(left->key[0]));
	memcpy(right->value, &left->value[MIN_KEYS + 1], MIN_KEYS * sizeof(left->value[0]));
	if (left->child[0] != NONE)
		memcpy(right->child, &left->child[MIN_KEYS + 1], (MIN_KEYS + 1) * sizeof(left->child[0]));
	left->n = MIN_KEYS;
	make_room(parent, at);
	parent->key[at] = left->key[MIN_KEYS];
	parent->value[at] = left->value[MIN_KEYS];
	parent->child[at + 1] = right_number;
}

static void insert(uint64_t key, uint32_t value)
{
	struct node *node = node_at(root);
	uint32_t at;

	if (node->n == MAX_KEYS) {
		const uint32_t old = root;

		root = new_node();
		node = node_at(root);
		node->n = 0;
		node->child[0] = old;
		split(node, 0);
	}
	for (;;) {
		at = position(node, key);
		if (at < node->n && node->key[at] == key) {
			node->value[at] = value;
			return;
		}
		if (node->child[0] == NONE)
			break;
		if (node_at(node->child[at])->n == MAX_KEYS) {
			split(node, at);
			continue; /* the key that came up may be the one, or less */
		}
		node = node_at(node->child[at]);
	}
	make_room(node, at);
	node->key[at] = key;
	node->value[at] = value;
}

static const uint32_t *find(uint64_t key)
{
	for (uint32_t i = root; i != NONE;) {
		const struct node *node = node_at(i);
		const uint32_t at = position(node, key);

		if (at < node->n && node->key[at] == key)
			return &node->value[at];
		i = node->child[0] == NONE ? (uint32_t)NONE : node->child[at];
	}
	return NULL;
}

void btree_prepare(const struct options *o)
{
	uint64_t state = o->seed;

	/* Every node but the root has at least MIN_KEYS keys. */
	nodes = memory((o->n / MIN_KEYS + 2) * sizeof(*nodes), o->touch);
	inserted = memory(o->n * sizeof(inserted[0]), o->touch);
	for (uint64_t i = 0; i < o->n; i++)
		inserted[i] = random_u64(&state) & ~1ull;
	root = new_node();
}

struct answer btree_run(const struct options *o)
{
	struct answer answer = { 2 * o->n, 0, 0 };
	uint64_t state = o->seed + 1, found = 0;

	for (uint64_t i = 0; i < o->n; i++)
		insert(inserted[i], (uint32_t)i);
	for (uint64_t i = 0; i < o->n; i++) {
		const uint64_t which = random_u64(&state);
		const uint32_t *value = find(inserted[(which >> 32) % o->n] + (which & 1)); /* no key is odd */

		if ((value == NULL) != (which & 1))
			die("a key was lost, or there is one too many");
		if (value) {
			found++;
			answer.checksum = mix(answer.checksum, *value);
		}
	}
	answer.checksum = mix(answer.checksum, found);
	return answer;
}
