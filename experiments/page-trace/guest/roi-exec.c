/* roi-exec COMMAND [ARGUMENT...]: run a command whose data pages the oracle records, from its first access on. */
#include "krepro-roi.h"
#include "tool.h"

int main(int argc, char **argv)
{
	if (argc < 2)
		usage_die("usage: roi-exec COMMAND [ARGUMENT...]");
	roi_select_exec();
	execvp(argv[1], argv + 1);
	fail(errno == ENOENT ? 127 : 126, errno, "%s", argv[1]);
}
