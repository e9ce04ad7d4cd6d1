/* In the launcher itself no guest is a clone of an interpreter; csrc/warm/warm.c has what is. */

#include "launcher.h"

void warm_return(struct guest *guest)
{
	(void)guest;
	sys(SYS_exit_group, 127);
	__builtin_unreachable();
}

int warm_part(struct guest *guest)
{
	return fail(&guest->why, SN_STAGE_WARM, ENOSYS, "launcher");
}
