/* Control groups: a slot enters its v1 groups once, everything later is reading. Files were opened by the host, which may
 * write them; a slot can only read them and add itself.
 *
 * Moving a process into a group waits for a grace period of the kernel (5 to 12 ms), so nothing on the run path does: on
 * v1 a box is a child of a slot that is inside, on v2 the guest is cloned into the group.
 */

#include "launcher.h"

#include <dirent.h>
#include <time.h>

int cgroup_enter(const struct sn_control *message, const int *fds, struct gauges *gauges, struct sn_failure *why)
{
	for (unsigned i = 0; i < SN_MAX_GAUGES; i++)
		gauges->fd[i] = -1;
	for (uint32_t i = 0; i < message->gauges; i++) {
		uint32_t kind = message->gauge[i];
		if (kind == SN_GAUGE_PROCS) {
			long wrote = sys(SYS_write, fds[i], "0", 1);
			sys(SYS_close, fds[i]);
			if (wrote < 0)
				return fail(why, SN_STAGE_CGROUP, wrote, "cgroup.procs");
		} else if (kind < SN_MAX_GAUGES) {
			gauges->fd[kind] = fds[i];
		} else {
			return fail(why, SN_STAGE_CGROUP, EINVAL, "unknown gauge");
		}
	}
	return 0;
}

/* The whole file from its start; "" when there is none. */
static const char *read_text(int fd, char *text, size_t size)
{
	text[0] = 0;
	long got = fd < 0 ? -1 : sys(SYS_pread64, fd, text, size - 1, 0);
	if (got >= 0)
		text[got] = 0;
	return text;
}

static uint64_t read_number(int fd)
{
	char text[32];
	return text_number(read_text(fd, text, sizeof text), NULL);
}

/* The number behind `key` at the start of a line. */
static uint64_t value_of(const char *text, const char *key)
{
	size_t length = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length) && line[length] == ' ')
			return text_number(line + length, NULL);
	}
	return 0;
}

/* Before a run: the peak anew where the kernel can (v1, and v2 since 6.12), and no OOM event of an earlier run to be read. */
void cgroup_begin(const struct gauges *gauges)
{
	uint64_t count;
	if (gauges->fd[SN_GAUGE_PEAK] >= 0)
		sys(SYS_pwrite64, gauges->fd[SN_GAUGE_PEAK], "0", 1, 0);
	if (gauges->fd[SN_GAUGE_OOM_EVENT] >= 0)
		sys(SYS_read, gauges->fd[SN_GAUGE_OOM_EVENT], &count, sizeof count);
}

bool cgroup_has_cpu(const struct gauges *gauges)
{
	return gauges->fd[SN_GAUGE_CPU_NS] >= 0 || gauges->fd[SN_GAUGE_CPU_STAT] >= 0;
}

struct usage cgroup_usage(const struct gauges *gauges)
{
	char text[1024];
	if (gauges->fd[SN_GAUGE_CPU_STAT] < 0)
		return (struct usage){
			.cpu_ns = read_number(gauges->fd[SN_GAUGE_CPU_NS]),
			.user_ns = read_number(gauges->fd[SN_GAUGE_CPU_USER_NS]),
			.system_ns = read_number(gauges->fd[SN_GAUGE_CPU_SYS_NS]),
		};
	read_text(gauges->fd[SN_GAUGE_CPU_STAT], text, sizeof text);
	return (struct usage){
		.cpu_ns = value_of(text, "usage_usec") * 1000,
		.user_ns = value_of(text, "user_usec") * 1000,
		.system_ns = value_of(text, "system_usec") * 1000,
	};
}

/* Anonymous and shared memory, no page cache: v1 says rss, v2 anon. */
uint64_t cgroup_memory(const struct gauges *gauges)
{
	char text[8192];
	read_text(gauges->fd[SN_GAUGE_MEMORY_STAT], text, sizeof text);
	return value_of(text, "anon") + value_of(text, "rss") + value_of(text, "shmem");
}

uint64_t cgroup_oom_kills(const struct gauges *gauges)
{
	char text[512];
	int fd = gauges->fd[SN_GAUGE_OOM_CONTROL];
	return value_of(read_text(fd >= 0 ? fd : gauges->fd[SN_GAUGE_MEMORY_EVENTS], text, sizeof text), "oom_kill");
}

uint64_t cgroup_peak(const struct gauges *gauges)
{
	return read_number(gauges->fd[SN_GAUGE_PEAK]);
}

/* The guest's: on v1 the slot and init are in the group too. */
uint64_t cgroup_processes(const struct gauges *gauges)
{
	uint64_t all = read_number(gauges->fd[SN_GAUGE_PIDS]);
	uint64_t ours = gauges->fd[SN_GAUGE_GROUP] >= 0 ? 0 : 2;
	return all > ours ? all - ours : 0;
}

/* A group whose last process has just been reaped may answer EBUSY for a moment. */
static void remove_directory(int parent, const char *name)
{
	for (int tries = 0; tries < 200; tries++) {
		if (sys(SYS_unlinkat, parent, name, AT_REMOVEDIR) != -EBUSY)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
}

/* Groups in groups: a base has slots, a slot may have one more. */
static void remove_children(int parent, const char *path)
{
	char entries[1024];
	owned_fd directory = (int)sys(SYS_openat, parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return;
	long got;
	while ((got = sys(SYS_getdents64, directory, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got;) {
			struct dirent64 *entry = (void *)(entries + at);
			if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
				remove_children(directory, entry->d_name);
				remove_directory(directory, entry->d_name);
			}
			at += entry->d_reclen;
		}
	}
}

void cgroup_remove_all(const struct plan *plan)
{
	const uint32_t *group = (const void *)(plan->base + plan->head->groups_at);
	for (uint32_t i = 0; i < plan->head->groups_count; i++) {
		remove_children(AT_FDCWD, plan->base + group[i]);
		remove_directory(AT_FDCWD, plan->base + group[i]);
	}
}
