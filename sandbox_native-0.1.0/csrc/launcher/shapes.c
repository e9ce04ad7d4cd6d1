/* Where a call keeps its paths, and which of its arguments say what is asked: facts of the kernel's interface, for the supervisor's
 * notes. A call that is not here is told by the arguments that its filter looked at.
 */

#include "launcher.h"

/* The same on every architecture, and newer than the C library's headers may be. */
enum { NR_fsopen = 430, NR_fspick = 433, NR_faccessat2 = 439, NR_fchmodat2 = 452 };
enum { NO = -1, A0 = 1, A1 = 2, A2 = 4, A3 = 8 };

#define NOTHING {NO, NO, NEED_NOTHING}
/* A path in an argument; one that is relative to the descriptor in the argument before it; two of either kind; numbers alone. */
#define PATH(nr, text, need, keys) {nr, {{text, NO, need}, NOTHING}, NO, keys, false}
#define AT(nr, at, need, keys) {nr, {{at + 1, at, need}, NOTHING}, NO, keys, false}
#define PATHS(nr, first, second) {nr, {{0, NO, first}, {1, NO, second}}, NO, 0, false}
#define BOTH_AT(nr, first, second) {nr, {{1, 0, first}, {3, 2, second}}, NO, 0, false}
#define WORD(nr, word) {nr, {NOTHING, NOTHING}, word, 0, false}
#define ADDRESS(nr, need) {nr, {{1, NO, need}, NOTHING}, NO, 0, true}
#define NUMBERS(nr, keys) {nr, {NOTHING, NOTHING}, NO, keys, false}

static const struct shape shapes[] = {
#ifdef SYS_open
	PATH(SYS_open, 0, NEED_FLAGS, A1), PATH(SYS_creat, 0, NEED_MADE, 0), PATH(SYS_stat, 0, NEED_SEEN, 0),
	PATH(SYS_lstat, 0, NEED_NAME, 0), PATH(SYS_access, 0, NEED_MODE, A1), PATH(SYS_readlink, 0, NEED_NAME, 0),
	PATH(SYS_mkdir, 0, NEED_NEW, 0), PATH(SYS_rmdir, 0, NEED_GONE, 0), PATH(SYS_unlink, 0, NEED_GONE, 0),
	PATH(SYS_chmod, 0, NEED_OWNED, A1), PATH(SYS_chown, 0, NEED_OWNED, 0), PATH(SYS_lchown, 0, NEED_OWNED, 0),
	PATH(SYS_mknod, 0, NEED_NEW, A1), PATHS(SYS_rename, NEED_GONE, NEED_PLACED), PATHS(SYS_link, NEED_NAME, NEED_NEW),
	PATH(SYS_symlink, 1, NEED_NEW, 0),
#endif
#ifdef SYS_renameat
	BOTH_AT(SYS_renameat, NEED_GONE, NEED_PLACED),
#endif
	AT(SYS_openat, 0, NEED_FLAGS, A2), AT(SYS_newfstatat, 0, NEED_SEEN, A3), AT(SYS_statx, 0, NEED_SEEN, A2),
	AT(SYS_faccessat, 0, NEED_MODE, A2), AT(NR_faccessat2, 0, NEED_MODE, A2), AT(SYS_readlinkat, 0, NEED_NAME, 0),
	AT(SYS_mkdirat, 0, NEED_NEW, 0), AT(SYS_unlinkat, 0, NEED_GONE, A2), AT(SYS_fchmodat, 0, NEED_OWNED, A2),
	AT(NR_fchmodat2, 0, NEED_OWNED, A2), AT(SYS_fchownat, 0, NEED_OWNED, 0), AT(SYS_mknodat, 0, NEED_NEW, A2),
	AT(SYS_symlinkat, 1, NEED_NEW, 0), AT(SYS_utimensat, 0, NEED_OWNED, 0), AT(SYS_execveat, 0, NEED_RUN, 0),
	BOTH_AT(SYS_linkat, NEED_NAME, NEED_NEW), BOTH_AT(SYS_renameat2, NEED_GONE, NEED_PLACED),
	PATH(SYS_execve, 0, NEED_RUN, 0), PATH(SYS_chdir, 0, NEED_SEEN, 0), PATH(SYS_statfs, 0, NEED_SEEN, 0),
	PATH(SYS_truncate, 0, NEED_WRITTEN, 0), ADDRESS(SYS_connect, NEED_SOCKET), ADDRESS(SYS_bind, NEED_NEW),

	{SYS_mount, {{1, NO, NEED_NOTHING}, {0, AS_IT_IS, NEED_NOTHING}}, 2, 0, false},
	PATHS(SYS_pivot_root, NEED_NOTHING, NEED_NOTHING), BOTH_AT(NR_move_mount, NEED_NOTHING, NEED_NOTHING),
	PATH(SYS_umount2, 0, NEED_NOTHING, 0), PATH(SYS_chroot, 0, NEED_NOTHING, 0), PATH(SYS_swapon, 0, NEED_NOTHING, 0),
	PATH(SYS_swapoff, 0, NEED_NOTHING, 0), PATH(SYS_acct, 0, NEED_NOTHING, 0), PATH(SYS_quotactl, 1, NEED_NOTHING, A0),
	AT(NR_openat2, 0, NEED_NOTHING, 0), AT(NR_open_tree, 0, NEED_NOTHING, 0), AT(NR_fspick, 0, NEED_NOTHING, 0),
	AT(NR_mount_setattr, 0, NEED_NOTHING, 0), AT(SYS_name_to_handle_at, 0, NEED_NOTHING, 0),
	WORD(NR_fsopen, 0), WORD(SYS_add_key, 0), WORD(SYS_request_key, 0),

	NUMBERS(SYS_socket, A0 | A1 | A2), NUMBERS(SYS_socketpair, A0 | A1 | A2), NUMBERS(SYS_ptrace, A0), NUMBERS(SYS_keyctl, A0),
	NUMBERS(SYS_bpf, A0), NUMBERS(SYS_seccomp, A0), NUMBERS(SYS_setns, A1), NUMBERS(SYS_ioctl, A1), NUMBERS(SYS_prctl, A0),
	NUMBERS(SYS_unshare, A0), NUMBERS(SYS_clone, A0), NUMBERS(SYS_personality, A0), NUMBERS(SYS_syslog, A0),
	NUMBERS(SYS_clock_settime, A0), NUMBERS(SYS_sched_setscheduler, A0 | A1), NUMBERS(SYS_process_vm_readv, A0),
	NUMBERS(SYS_process_vm_writev, A0), NUMBERS(SYS_move_pages, A0), NUMBERS(SYS_setpriority, A0 | A1),
	NUMBERS(SYS_ioprio_set, A0 | A1), NUMBERS(SYS_prlimit64, A0 | A1),
};

const struct shape *shape_of(int nr)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (shapes[i].nr == nr)
			return shapes + i;
	return NULL;
}
