/* What this machine lets us do, found by doing it: one short-lived child for each probe, its errno the answer.
 *
 * Run by a launcher whose plan asks for nothing else, as the user who asks.
 */

#include "launcher.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The namespaces of a box, entered as a plain user's launcher or root's does. 0, or -errno. */
static long enter(struct plan *plan, uint64_t more)
{
	struct sn_failure why = {0};
	if (!plan_as_root(plan)) {
		if (userns_enter_self(plan, &why))
			return -why.error;
	} else {
		long result = sys(SYS_unshare, CLONE_NEWNS);
		if (result < 0)
			return result;
	}
	long result = sys(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return result < 0 || !more ? result : sys(SYS_unshare, more);
}

static long probe_userns(struct plan *plan)
{
	(void)plan;
	return sys(SYS_unshare, CLONE_NEWUSER);
}

static long probe_mount(struct plan *plan)
{
	long result = enter(plan, 0);
	if (result < 0 || (result = sys(SYS_mount, "tmpfs", "/tmp", "tmpfs", 0, "size=64k")) < 0)
		return result;
	owned_fd tree = (int)sys(NR_open_tree, AT_FDCWD, "/tmp", OPEN_TREE_CLONE | O_CLOEXEC);
	return tree < 0 ? tree : sys(NR_move_mount, tree, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
}

/* The mount belongs to a process of the new pid namespace. */
static long mount_proc(struct plan *plan, const char *options)
{
	long result = enter(plan, CLONE_NEWPID);
	if (result < 0)
		return result;
	signal(SIGCHLD, SIG_DFL);
	long pid = sys_clone(0, NULL, SIGCHLD, -1);
	if (pid == 0)
		sys(SYS_exit_group, -sys(SYS_mount, "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, options));
	int status = 0;
	if (pid > 0)
		sys(SYS_wait4, pid, &status, 0, NULL);
	return pid < 0 ? pid : -WEXITSTATUS(status);
}

static long probe_proc(struct plan *plan)
{
	return mount_proc(plan, NULL);
}

static long probe_proc_subset(struct plan *plan)
{
	return mount_proc(plan, "subset=pid");
}

static long probe_netns(struct plan *plan)
{
	struct sn_failure why = {0};
	long result = enter(plan, 0);
	return result < 0 ? result : netns_fresh(&why) ? -why.error : 0;
}

static long install_filter(unsigned flags)
{
	struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
	struct sock_fprog program = {.len = 1, .filter = &allow};
	sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	long result = sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	return result < 0 ? result : 0;
}

static long probe_seccomp(struct plan *plan)
{
	(void)plan;
	return install_filter(0);
}

static long probe_listener(struct plan *plan)
{
	(void)plan;
	return install_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

static long probe_pidfd(struct plan *plan)
{
	(void)plan;
	long fd = sys(NR_pidfd_open, sys(SYS_getpid), 0);
	return fd < 0 ? fd : sys(NR_pidfd_send_signal, fd, 0, NULL, 0);
}

static long probe_close_range(struct plan *plan)
{
	(void)plan;
	return sys(NR_close_range, 1000, 1000, 0);
}

static long probe_openat2(struct plan *plan)
{
	(void)plan;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	return sys(NR_openat2, AT_FDCWD, "/", &how, sizeof how);
}

static long clone_of_directory(struct plan *plan, uint32_t flags)
{
	struct sn_failure why = {0};
	const char *path = plan_text(plan, plan->head->workspace_at);
	long result = enter(plan, 0);
	if (result < 0)
		return result;
	int mount = mount_clone(plan, -1, path ? path : "/", flags, 0, 0, &why);
	return mount < 0 ? -why.error : 0;
}

static long probe_mount_setattr(struct plan *plan)
{
	return clone_of_directory(plan, SN_OP_RDONLY);
}

static long probe_idmap(struct plan *plan)
{
	if (!plan_as_root(plan))
		return -EPERM;
	signal(SIGCHLD, SIG_DFL);
	return clone_of_directory(plan, SN_OP_IDMAP | SN_OP_NORECURSE);
}

/* Its ABI, once a domain could be entered. */
static long probe_landlock(struct plan *plan)
{
	(void)plan;
	uint64_t execute = 1;
	struct __attribute__((packed)) {
		uint64_t access;
		int32_t fd;
	} rule = {1, (int32_t)sys(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC)};
	long abi = sys(NR_landlock_create_ruleset, NULL, 0, 1);
	sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	long ruleset = abi < 0 ? abi : sys(NR_landlock_create_ruleset, &execute, sizeof execute, 0);
	long result = ruleset < 0 ? ruleset : sys(NR_landlock_add_rule, ruleset, 1, &rule, 0);
	if (result >= 0)
		result = sys(NR_landlock_restrict_self, ruleset, 0);
	return result < 0 ? result : abi;
}

static long probe_cgroupns(struct plan *plan)
{
	return enter(plan, CLONE_NEWCGROUP);
}

static long probe_resource(struct plan *plan)
{
	(void)plan;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{0}};
	long result = sys(SYS_capget, &header, sets);
	return result < 0 ? result : sets[0].effective & (1U << CAP_SYS_RESOURCE) ? 0 : -EPERM;
}

static long probe_keyring(struct plan *plan)
{
	(void)plan;
	long result = sys(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	return result < 0 ? result : 0;
}

static long mount_overlay(const char *options)
{
	return sys(SYS_mount, "overlay", "/tmp/merged", "overlay", MS_NOSUID | MS_NODEV, options);
}

static long scratch(struct plan *plan)
{
	static const char *const directories[] = {"/tmp/merged", "/tmp/lower", "/tmp/lower/d", "/tmp/upper", "/tmp/work"};
	long result = probe_mount(plan);
	for (unsigned i = 0; result >= 0 && i < sizeof directories / sizeof *directories; i++)
		result = sys(SYS_mkdirat, AT_FDCWD, directories[i], 0755);
	return result;
}

static long probe_overlay(struct plan *plan)
{
	long result = scratch(plan);
	return result < 0 ? result : mount_overlay("lowerdir=/etc:/tmp/lower");
}

/* To replace a directory takes an extended attribute, which a tmpfs has from 6.6 on only. */
static long probe_changes(struct plan *plan)
{
	long result = scratch(plan);
	if (result < 0 || (result = mount_overlay("lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr")) < 0)
		return result;
	result = sys(SYS_unlinkat, AT_FDCWD, "/tmp/merged/d", AT_REMOVEDIR);
	return result < 0 ? result : sys(SYS_mkdirat, AT_FDCWD, "/tmp/merged/d", 0755);
}

/* Two processes of one uid outside, and one inside a new user namespace that may have two. As root it takes a uid that is not root's,
 * which no limit holds; any serves, since only its own two processes have to be there. */
static long probe_nproc(struct plan *plan)
{
	enum { SOMEBODY = 0x7000FFFF };
	struct rlimit two = {2, 2};
	signal(SIGCHLD, SIG_DFL);
	if (plan_as_root(plan))
		sys(SYS_setresuid, SOMEBODY, SOMEBODY, SOMEBODY);
	long other = sys_clone(0, NULL, SIGCHLD, -1);
	if (other == 0)
		sys(SYS_ppoll, NULL, 0, NULL, NULL, 8);
	long result = other < 0 ? other : sys(SYS_unshare, CLONE_NEWUSER);
	if (result >= 0 && !(result = setrlimit(RLIMIT_NPROC, &two) ? -errno : 0)) {
		long one_more = sys_clone(0, NULL, SIGCHLD, -1);
		if (one_more == 0)
			sys(SYS_exit_group, 0);
		result = one_more < 0 ? one_more : 0;
	}
	if (other > 0)
		sys(SYS_kill, other, SIGKILL);
	return result;
}

static long (*const probes[SN_PROBE_COUNT])(struct plan *) = {
	[SN_PROBE_USERNS] = probe_userns,
	[SN_PROBE_MOUNT] = probe_mount,
	[SN_PROBE_PROC] = probe_proc,
	[SN_PROBE_PROC_SUBSET] = probe_proc_subset,
	[SN_PROBE_NETNS] = probe_netns,
	[SN_PROBE_SECCOMP] = probe_seccomp,
	[SN_PROBE_LISTENER] = probe_listener,
	[SN_PROBE_PIDFD] = probe_pidfd,
	[SN_PROBE_CLOSE_RANGE] = probe_close_range,
	[SN_PROBE_OPENAT2] = probe_openat2,
	[SN_PROBE_MOUNT_SETATTR] = probe_mount_setattr,
	[SN_PROBE_IDMAP] = probe_idmap,
	[SN_PROBE_LANDLOCK] = probe_landlock,
	[SN_PROBE_CGROUPNS] = probe_cgroupns,
	[SN_PROBE_RESOURCE] = probe_resource,
	[SN_PROBE_KEYRING] = probe_keyring,
	[SN_PROBE_OVERLAY] = probe_overlay,
	[SN_PROBE_CHANGES] = probe_changes,
	[SN_PROBE_NPROC] = probe_nproc,
};

/* An exit status holds 8 bits, enough for every errno that these calls give and for Landlock's ABI. */
static int32_t ask(struct plan *plan, unsigned which)
{
	long pid = sys_clone(0, NULL, SIGCHLD, -1);
	if (pid == 0) {
		long result = probes[which](plan);
		if (which == SN_PROBE_LANDLOCK)
			sys(SYS_exit_group, result < 0 ? -result | 128 : result);
		sys(SYS_exit_group, result < 0 ? -result : 0);
	}
	int status = 0;
	if (pid < 0)
		return (int32_t)-pid;
	sys(SYS_wait4, pid, &status, 0, NULL);
	if (!WIFEXITED(status))
		return EFAULT;
	int code = WEXITSTATUS(status);
	if (which == SN_PROBE_LANDLOCK)
		return code & 128 ? code & 127 : -code;
	return code;
}

void probe_all(struct plan *plan, struct sn_probes *out)
{
	signal(SIGCHLD, SIG_DFL);
	for (unsigned i = 0; i < SN_PROBE_COUNT; i++)
		out->error[i] = ask(plan, i);
}
