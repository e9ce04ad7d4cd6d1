/* The supervisor of one run's refused calls (explain): a process that the launcher forks when the host asks, outside of the box, so
 * that nobody of the box is ever waited for.
 *
 * The guest's first steps send it the filter's listener. It answers each call with what the plan's other filter says of it,
 * from the registers that the kernel froze; a call that this one permits goes on, and the kernel decides. What it reads of the guest's
 * memory and files goes into the report only. It has no capability, and of the ids the guest's own: looking into the box
 * needs no more, since whoever made a user namespace may look into it. When it is gone the kernel answers ENOSYS in its place.
 *
 * Ends when nobody has the filter any more, or init is gone.
 */

#include "launcher.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* Notes of calls that were let through leave this much room for refused ones. */
enum { KEPT_FOR_REFUSED = SN_MAX_DENIALS / 4, LANDLOCK_REMOVE_FILE = 1 << 5, WORD_MOST = 64 };
#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif
#define NOTIF_SET_FLAGS _IOW('!', 4, uint64_t)
#define NOTIF_SYNC_WAKE_UP 1UL

struct supervisor {
	const struct plan *plan;
	struct sn_denials *told;
	int socket, listener;
	int root; /* the guest's: one for all of its processes; -1 until one has executed its program */
};

static char paths[2][PATH_ROOM];

/* ---- the report ---- */

static bool same(const struct sn_denial *a, const struct sn_denial *b)
{
	return a->arch == b->arch && a->nr == b->nr && a->error == b->error && !memcmp(a->args, b->args, sizeof a->args) &&
	       !memcmp(a->path, b->path, sizeof a->path) && !memcmp(a->other, b->other, sizeof a->other);
}

static void tell(struct sn_denials *told, const struct sn_denial *denial)
{
	uint32_t room = denial->error < 0 ? SN_MAX_DENIALS - KEPT_FOR_REFUSED : SN_MAX_DENIALS;
	for (uint32_t i = 0; i < told->count; i++) {
		if (!same(&told->item[i], denial))
			continue;
		told->item[i].count += told->item[i].count < UINT32_MAX;
		return;
	}
	if (told->count >= room)
		told->lost += told->lost < UINT32_MAX;
	else
		told->item[told->count++] = *denial;
}

/* ---- one call ---- */

static bool beneath(const char *path, const char *root)
{
	size_t length = root ? strlen(root) : 0;
	if (length == 1)
		return path[0] == '/';
	return length && !strncmp(path, root, length) && (!path[length] || path[length] == '/');
}

/* Landlock: no rule that covers the path permits to remove it. */
static bool is_kept(const struct plan *plan, const char *path)
{
	const struct sn_plan *head = plan->head;
	const struct sn_rule *rule = (const void *)(plan->base + head->rules_at);
	uint64_t granted = beneath(path, plan_text(plan, head->workspace_at)) ? head->landlock_workspace : 0;
	for (uint32_t i = 0; i < head->rules_count; i++)
		granted |= beneath(path, plan_text(plan, rule[i].path)) ? rule[i].access : 0;
	return head->landlock_handled & ~granted & LANDLOCK_REMOVE_FILE;
}

/* Whether the caller still waits, so that the pid was its own all the time. */
static bool is_valid(const struct supervisor *self, const struct seccomp_notif *note)
{
	return sys(SYS_ioctl, self->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &note->id) >= 0;
}

static void open_root(struct supervisor *self, const struct seccomp_notif *note)
{
	char link[64];
	process_path((int)note->pid, "/root", -1, link, sizeof link);
	self->root = (int)sys(SYS_openat, AT_FDCWD, link, O_PATH | O_CLOEXEC);
	if (!is_valid(self, note))
		fd_close(&self->root);
}

/* Of a call that is let through: the errno that it will get by the look of things, or not below 0. */
static long foresee_call(struct supervisor *self, const struct seccomp_notif *note, const struct shape *shape)
{
	const struct plan *plan = self->plan;
	long error = 0;
	if (self->root < 0)
		open_root(self, note);
	for (int i = 0; i < 2 && error >= 0 && self->root >= 0; i++) {
		const struct path_place *place = &shape->path[i];
		if (place->need == NEED_NOTHING || !paths[i][0] || beneath(paths[i], "/proc"))
			continue;
		error = foresee(self->root, paths[i], place->need, note->data.args[(place->text + 1) % 6]);
		if (error == -ENOENT && beneath(paths[i], plan_text(plan, plan->head->workspace_at)))
			error = NOT_FORESEEN; /* the run's own */
		if (!error && place->need == NEED_GONE && is_kept(plan, paths[i]))
			error = -EACCES;
	}
	return error < 0 ? error : 0;
}

/* The arguments that say what was asked, and the texts. */
static void describe(const struct seccomp_data *call, uint32_t keys, const char *word, struct sn_denial *denial)
{
	denial->arch = call->arch;
	denial->nr = call->nr;
	denial->count = 1;
	for (int i = 0; i < 6; i++)
		denial->args[i] = keys >> i & 1 ? call->args[i] : 0;
	text_add(denial->path, sizeof denial->path, paths[0]);
	text_add(denial->other, sizeof denial->other - WORD_MOST, paths[1]);
	size_t at = strlen(denial->other) + 1;
	text_add(denial->other + at, sizeof denial->other - at, word);
}

/* Into denial->error what the call is to get. */
static void judge(struct supervisor *self, const struct seccomp_notif *note, struct sn_denial *denial)
{
	static const struct shape plain = {.path = {{-1, -1, NEED_NOTHING}, {-1, -1, NEED_NOTHING}}, .word = -1};
	const struct sn_plan *head = self->plan->head;
	const struct sock_filter *filter = (const void *)(self->plan->base + head->explain_at);
	char word[WORD_MOST] = "";
	uint32_t read, action = bpf_answer(filter, head->explain_count, &note->data, &read);
	bool permits = action == SECCOMP_RET_ALLOW, refuses = (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
	const struct shape *known = permits || refuses ? shape_of(note->data.nr) : NULL, *shape = known ? known : &plain;
	read_arguments((int)note->pid, &note->data, shape, paths, word, sizeof word);
	if (permits)
		denial->error = (int32_t)foresee_call(self, note, shape);
	else
		denial->error = refuses ? (int32_t)(action & SECCOMP_RET_DATA) : SN_DENIAL_ENDED;
	describe(&note->data, shape->keys | read, word, denial);
}

static void answer(const struct supervisor *self, uint64_t id, int32_t error, struct sn_denial *denial)
{
	union {
		struct seccomp_notif_resp answer;
		char room[128];
	} reply = {.room = {0}};
	reply.answer.id = id;
	reply.answer.error = -error;
	reply.answer.flags = error ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	long sent = sys(SYS_ioctl, self->listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	if (sent == -EINVAL && !error) { /* before Linux 5.5 no call can go on */
		reply.answer.flags = 0;
		reply.answer.error = -ENOSYS;
		sys(SYS_ioctl, self->listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	} else if (sent >= 0 && denial->error) { /* a call that a signal interrupts is made again */
		tell(self->told, denial);
	}
}

static void end_tree(const struct supervisor *self, const struct seccomp_data *call, const struct sn_denial *denial)
{
	struct sn_ending ending = {.arch = call->arch, .nr = call->nr};
	tell(self->told, denial);
	channel_send(self->socket, &ending, sizeof ending, NULL, 0);
}

static void serve(struct supervisor *self)
{
	struct sn_denial denial = {0};
	union {
		struct seccomp_notif call;
		char room[512]; /* a later kernel's is larger */
	} note = {.room = {0}};
	if (sys(SYS_ioctl, self->listener, SECCOMP_IOCTL_NOTIF_RECV, &note) < 0)
		return;
	judge(self, &note.call, &denial);
	if (!is_valid(self, &note.call))
		return; /* whose memory was that? */
	if (denial.error == SN_DENIAL_ENDED)
		end_tree(self, &note.call.data, &denial);
	else
		answer(self, note.call.id, denial.error > 0 ? denial.error : 0, &denial);
}

/* ---- its life ---- */

/* From the socket: the guest's first steps, or nobody. */
static int take_listener(int socket)
{
	char byte;
	int listener = -1;
	unsigned count = 1;
	if (channel_receive(socket, &byte, sizeof byte, NULL, 0, &listener, &count) <= 0 || count != 1)
		return -1;
	sys(SYS_ioctl, listener, NOTIF_SET_FLAGS, NOTIF_SYNC_WAKE_UP); /* from Linux 6.6 on: cheaper */
	return listener;
}

static int become_nobody(const struct plan *plan)
{
	struct sn_failure why;
	uint32_t held = 0;
	if (plan_as_root(plan) &&
	    (sys(SYS_setgroups, 0, NULL) < 0 || sys(SYS_setresgid, plan->head->box_gid, plan->head->box_gid, plan->head->box_gid) < 0 ||
	     sys(SYS_setresuid, plan->head->box_uid, plan->head->box_uid, plan->head->box_uid) < 0))
		return -1;
	sys(SYS_prctl, PR_SET_DUMPABLE, 0);
	return sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1 : creds_drop(&held, &why);
}

static __attribute__((noreturn)) void supervise(const struct plan *plan, int socket, int memory)
{
	struct supervisor self = {.plan = plan, .socket = 3, .root = -1};
	self.told = mmap(NULL, sizeof *self.told, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	/* In place of the launcher's control socket, which must close with the launcher. */
	if (self.told == MAP_FAILED || sys(SYS_dup3, socket, self.socket, O_CLOEXEC) < 0 || become_nobody(plan))
		sys(SYS_exit_group, 1);
	sys(SYS_close, socket);
	sys(SYS_close, memory);
	sys(SYS_close, plan->idmap_fd);
	self.told->version = SN_WIRE_VERSION;
	self.told->state = SN_DENIALS_OPEN;
	self.listener = take_listener(self.socket);
	struct pollfd fds[] = {{.fd = self.listener, .events = POLLIN}, {.fd = self.socket, .events = POLLIN}};
	while (self.listener >= 0) {
		long ready = sys(SYS_ppoll, fds, 2, NULL, NULL, 8);
		if (ready > 0 && fds[0].revents & POLLIN)
			serve(&self);
		else if (ready > 0)
			break;
	}
	self.told->state = SN_DENIALS_DONE;
	sys(SYS_exit_group, 0);
	__builtin_unreachable();
}

/* The supervisor's pidfd, or -1. */
int supervise_start(const struct plan *plan, int socket, int memory, struct sn_failure *why)
{
	int pidfd = -1;
	if (!plan->head->explain_count)
		return fail(why, SN_STAGE_EXPLAIN, EPROTO, "plan");
	long pid = sys_clone(0, &pidfd, SIGCHLD, -1);
	if (pid == 0)
		supervise(plan, socket, memory);
	return pid < 0 ? fail(why, SN_STAGE_EXPLAIN, pid, "supervisor") : pidfd;
}
