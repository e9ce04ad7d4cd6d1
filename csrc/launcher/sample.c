/* The tree's figures where no control group has them: sums over /proc, of the processes that tree.c finds there.
 *
 * Run by init. CPU time is each living process's own clock plus what its reaped children used; what init itself
 * has reaped is added by the caller. A guest that ignores SIGCHLD makes its children's time vanish: the receipt says
 * "sampled" for that reason, and the wall limit holds in any case.
 */

#include "launcher.h"

#include <time.h>

static uint64_t kilobytes(const char *status, const char *key)
{
	const char *found = strstr(status, key);
	if (!found)
		return 0;
	found += strlen(key);
	while (*found == '\t' || *found == ' ')
		found++;
	return text_number(found, NULL) * 1024;
}

/* Fields 16 and 17 of stat: clock ticks of reaped children. The name, field 2, may hold anything: count from its last ')'. */
static uint64_t children_ns(const char *stat)
{
	const char *at = strrchr(stat, ')');
	uint64_t ticks = 0;
	for (int field = 2; at && field < 17; field++) {
		at = strchr(at + 1, ' ');
		if (at && field >= 15)
			ticks += text_number(at, NULL);
	}
	return ticks * 10000000; /* USER_HZ is 100 */
}

static void add_figures(int proc, const char *pid, struct sampled *sum)
{
	char text[4096];
	struct timespec used = {0};
	clockid_t clock = (clockid_t)((~(unsigned)text_number(pid, NULL)) << 3 | 2); /* a process's scheduler clock, as clock_getcpuclockid makes it */
	if (!clock_gettime(clock, &used))
		sum->cpu_ns += (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
	if (tree_read(proc, pid, "/stat", text, sizeof text) > 0)
		sum->cpu_ns += children_ns(text);
	if (tree_read(proc, pid, "/status", text, sizeof text) > 0)
		sum->memory_bytes += kilobytes(text, "RssAnon:") + kilobytes(text, "RssShmem:");
	sum->processes++;
}

static void add_share(int proc, const char *pid, struct sampled *sum)
{
	char text[4096];
	if (tree_read(proc, pid, "/smaps_rollup", text, sizeof text) > 0)
		sum->memory_bytes += kilobytes(text, "Pss_Anon:") + kilobytes(text, "Pss_Shmem:");
	else if (tree_read(proc, pid, "/status", text, sizeof text) > 0) /* one that may not be looked into does not weigh less for it */
		sum->memory_bytes += kilobytes(text, "RssAnon:") + kilobytes(text, "RssShmem:");
	sum->processes++;
}

static void add_one(int proc, const char *pid, struct sampled *sum)
{
	(void)proc, (void)pid;
	sum->processes++;
}

struct sampled sample_tree(bool bare, uint64_t until)
{
	return tree_each(bare, add_figures, until);
}

/* Memory that processes share, by a fork or a mapping, counted once. The kernel walks their page tables for it, so it is asked
 * only where the plain sum looks too high. 0: this kernel does not tell. */
uint64_t sample_shared_once(bool bare, uint64_t until)
{
	return tree_each(bare, add_share, until).memory_bytes;
}

uint32_t sample_processes(bool bare)
{
	return tree_each(bare, add_one, UINT64_MAX).processes;
}
