/* The failure record: filled once, where the call failed. Called in every process of the launcher. */

#include "launcher.h"

int fail(struct sn_failure *why, uint32_t stage, long error, const char *item)
{
	why->stage = stage;
	why->error = (int32_t)(error < 0 ? -error : error);
	why->item[0] = 0;
	if (item)
		text_add(why->item, sizeof why->item, item);
	return -1;
}
