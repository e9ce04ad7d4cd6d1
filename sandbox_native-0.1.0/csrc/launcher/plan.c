/* The plan as it was sent: mapped, and checked as far as a mistake of ours could make a wrong box of it. */

#include "launcher.h"

#include <sys/mman.h>
#include <sys/stat.h>

int plan_read(int fd, struct plan *plan, struct sn_failure *why)
{
	struct stat file;
	if (fstat(fd, &file) || (size_t)file.st_size < sizeof *plan->head)
		return fail(why, SN_STAGE_PLAN, EINVAL, "size");
	void *base = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (base == MAP_FAILED)
		return fail(why, SN_STAGE_PLAN, errno, "mmap");
	plan->base = base;
	plan->head = base;
	if (plan->head->version != SN_WIRE_VERSION || plan->head->size != (uint64_t)file.st_size)
		return fail(why, SN_STAGE_PLAN, EPROTO, "version");
	return 0;
}
