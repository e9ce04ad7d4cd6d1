/* The tree's figures where no control group has them: sums over /proc, which shows this box's processes only.
 *
 * Run by init. CPU time is each living process's own clock plus what its reaped children used; what init itself
 * has reaped is added by the caller. A guest that ignores SIGCHLD makes its children's time vanish: the receipt says
 * "sampled" for that reason, and the wall limit holds in any case.
 */

#include "launcher.h"

#include <dirent.h>
#include <time.h>

static long read_entry(int proc, const char *pid, const char *name, char *text, size_t size)
{
	char path[48] = "";
	text_add(path, sizeof path, pid);
	text_add(path, sizeof path, name);
	owned_fd fd = (int)sys(SYS_openat, proc, path, O_RDONLY | O_CLOEXEC);
	long got = fd < 0 ? fd : sys(SYS_read, fd, text, size - 1);
	text[got > 0 ? got : 0] = 0;
	return got;
}

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
	if (read_entry(proc, pid, "/stat", text, sizeof text) > 0)
		sum->cpu_ns += children_ns(text);
	if (read_entry(proc, pid, "/status", text, sizeof text) > 0)
		sum->memory_bytes += kilobytes(text, "RssAnon:") + kilobytes(text, "RssShmem:");
	sum->processes++;
}

static void add_share(int proc, const char *pid, struct sampled *sum)
{
	char text[4096];
	if (read_entry(proc, pid, "/smaps_rollup", text, sizeof text) > 0)
		sum->memory_bytes += kilobytes(text, "Pss_Anon:") + kilobytes(text, "Pss_Shmem:");
	sum->processes++;
}

static void add_one(int proc, const char *pid, struct sampled *sum)
{
	(void)proc, (void)pid;
	sum->processes++;
}

static struct sampled for_each_process(void (*add)(int, const char *, struct sampled *))
{
	char entries[8192];
	struct sampled sum = {0};
	owned_fd proc = (int)sys(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long got;
	while (proc >= 0 && (got = sys(SYS_getdents64, proc, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got;) {
			struct dirent64 *entry = (void *)(entries + at);
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1"))
				add(proc, entry->d_name, &sum);
			at += entry->d_reclen;
		}
	}
	return sum;
}

struct sampled sample_tree(void)
{
	return for_each_process(add_figures);
}

/* Memory that processes share, by a fork or a mapping, counted once. The kernel walks their page tables for it, so it is asked
 * only where the plain sum looks too high. 0: this kernel does not tell. */
uint64_t sample_shared_once(void)
{
	return for_each_process(add_share).memory_bytes;
}

uint32_t sample_processes(void)
{
	return for_each_process(add_one).processes;
}
