// SPDX-License-Identifier: MIT
#include "keeper.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Descriptors that who asks may have. */
enum { MOST = 1024 };
enum what { KEEP, UNTIL, DROP };

struct request {
	enum what what;
	int number; /* the event's descriptor, in who asks */
	size_t size;
	int protection;
};

struct answer {
	int error;
	uint64_t until;
};

static int to_keeper = -1;

/* A request, and for KEEP the event's descriptor, which the other side has by a number of its own then. */
static void ask(const struct request *request, struct answer *answer)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec words = { (void *)request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &words, .msg_iovlen = 1 };

	if (request->what == KEEP) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &request->number, sizeof(int));
	}
	if (TEMP_FAILURE_RETRY(sendmsg(to_keeper, &message, 0)) != sizeof(*request) ||
	    TEMP_FAILURE_RETRY(recv(to_keeper, answer, sizeof(*answer), 0)) != sizeof(*answer))
		die_errno("the keeper of rings");
}

static void keep(int from)
{
	static struct {
		void *ring;
		size_t size;
	} kept[MOST];

	for (;;) {
		char control[CMSG_SPACE(sizeof(int))];
		struct request request;
		struct answer answer = { 0 };
		struct iovec words = { &request, sizeof(request) };
		struct msghdr message = { .msg_iov = &words, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = sizeof(control) };
		const struct cmsghdr *header;
		int event;

		if (TEMP_FAILURE_RETRY(recvmsg(from, &message, 0)) != sizeof(request))
			_exit(0);
		header = CMSG_FIRSTHDR(&message);
		if (request.number < 0 || request.number >= MOST) {
			answer.error = EMFILE;
		} else if (request.what == KEEP && header) {
			memcpy(&event, CMSG_DATA(header), sizeof(event));
			kept[request.number].ring = mmap(NULL, request.size, request.protection, MAP_SHARED, event, 0);
			kept[request.number].size = request.size;
			answer.error = kept[request.number].ring == MAP_FAILED ? errno : 0;
			close(event);
		} else if (request.what == UNTIL) {
			answer.until = ((struct perf_event_mmap_page *)kept[request.number].ring)->data_head;
		} else if (request.what == DROP) {
			munmap(kept[request.number].ring, kept[request.number].size);
		}
		if (send(from, &answer, sizeof(answer), 0) != sizeof(answer))
			_exit(1);
	}
}

void prepare_keeper(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		die_errno("socketpair");
	switch (fork()) {
	case -1:
		die_errno("fork");
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		keep(ends[1]);
	}
	close(ends[1]);
	to_keeper = ends[0];
}

bool keep_ring(int event, size_t size, int protection)
{
	struct answer answer;

	ask(&(struct request){ KEEP, event, size, protection }, &answer);
	errno = answer.error;
	return !answer.error;
}

uint64_t kept_until(int event)
{
	struct answer answer;

	ask(&(struct request){ .what = UNTIL, .number = event }, &answer);
	return answer.until;
}

void drop_ring(int event)
{
	struct answer answer;

	ask(&(struct request){ .what = DROP, .number = event }, &answer);
}
