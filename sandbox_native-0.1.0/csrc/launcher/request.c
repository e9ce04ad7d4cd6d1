/* The request of one run: received whole, unpacked in place, checked where a wrong figure would make init read out of it. The host
 * is trusted; what is checked here keeps a mistake of ours from becoming a wrong run.
 */

#include "launcher.h"

#include <sys/mman.h>

static int bad(struct sn_failure *why, const char *what)
{
	return fail(why, SN_STAGE_REQUEST, EPROTO, what);
}

static long sys_map(size_t size, int prot, int flags, int fd)
{
	return sys(SYS_mmap, NULL, size, prot, flags, fd, 0);
}

/* `count` pointers to consecutive strings of the body, NULL behind them. */
static const char **take_strings(const char **at, const char *end, uint32_t count, const char ***room)
{
	const char **first = *room;
	for (uint32_t i = 0; i < count; i++) {
		const char *nul = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
		if (!nul)
			return NULL;
		*(*room)++ = *at;
		*at = nul + 1;
	}
	*(*room)++ = NULL;
	return first;
}

static const char *file_name(const struct sn_file *file)
{
	return (const char *)(file + 1);
}

static const char *file_data(const struct sn_file *file)
{
	return file_name(file) + file->name_bytes;
}

static const struct sn_file *file_after(const struct sn_file *file)
{
	return (const void *)((const char *)file + ((sizeof *file + file->name_bytes + file->size + 7) & ~(uint64_t)7));
}

const char *request_guard_name(const struct sn_guard *guard)
{
	return (const char *)(guard + 1);
}

const struct sn_guard *request_guard_after(const struct sn_guard *guard)
{
	return (const void *)((const char *)guard + ((sizeof *guard + guard->name_bytes + 7) & ~(size_t)7));
}

static int check_guards(const struct request *request, const char *end, struct sn_failure *why)
{
	const struct sn_guard *guard = request->guard_records;
	for (uint32_t i = 0; i < request->head.guards; i++, guard = request_guard_after(guard)) {
		long room = end - (const char *)guard - (long)sizeof *guard;
		if (room < 0 || !guard->name_bytes || guard->name_bytes > (uint64_t)room ||
		    request_guard_name(guard)[guard->name_bytes - 1])
			return bad(why, "guard records");
	}
	return 0;
}

/* Guard records follow the files'. */
static int check_files(struct request *request, const char *end, struct sn_failure *why)
{
	const struct sn_file *file = request->file_records;
	for (uint32_t i = 0; i < request->head.files; i++, file = file_after(file)) {
		long room = end - (const char *)file - (long)sizeof *file;
		if (room < 0 || file->name_bytes > (uint64_t)room || file->size > (uint64_t)room - file->name_bytes)
			return bad(why, "file records");
	}
	request->guard_records = (const void *)file;
	return check_guards(request, end, why);
}

static int unpack(struct request *request, const char *body, struct sn_failure *why)
{
	const struct sn_request *head = &request->head;
	const char *at = body, *end = body + head->body_bytes;
	if (head->candidates + head->argc + head->envc > head->body_bytes)
		return bad(why, "body");
	size_t size = ((size_t)head->candidates + head->argc + head->envc + 4) * sizeof(char *);
	long room_at = sys_map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (room_at < 0 && room_at > -4096)
		return fail(why, SN_STAGE_REQUEST, room_at, "pointers");
	const char **room = (const char **)room_at;
	const char **cwd = take_strings(&at, end, 1, &room);
	request->candidates = take_strings(&at, end, head->candidates, &room);
	request->argv = take_strings(&at, end, head->argc, &room);
	request->env = take_strings(&at, end, head->envc, &room);
	if (!cwd || !request->candidates || !request->argv || !request->env || !head->argc || !head->candidates)
		return bad(why, "strings");
	request->cwd = *cwd;
	request->file_records = (const void *)(body + (((size_t)(at - body) + 7) & ~(size_t)7));
	return check_files(request, end, why);
}

/* Descriptors by what they are for; what is over is closed. -1: too few. */
static int take_fds(struct request *request, const int *fds, unsigned count)
{
	const uint32_t optional[] = {SN_REQUEST_BODY_FD, SN_REQUEST_WORKSPACE, SN_REQUEST_UPPER, SN_REQUEST_EXPLAIN};
	int *const places[] = {&request->body_fd, &request->workspace, &request->upper, &request->supervisor};
	unsigned next = 0;
	request->channel = count ? fds[next++] : -1;
	for (unsigned i = 0; i < 3; i++)
		request->stdio[i] = next < count ? fds[next++] : -1;
	for (unsigned i = 0; i < 4; i++) {
		bool wanted = request->head.flags & optional[i];
		*places[i] = wanted && next < count ? fds[next] : -1;
		if (wanted && next++ >= count)
			return -1;
	}
	return request->stdio[2] >= 0 && next == count ? 0 : -1;
}

bool request_receive(int control, struct request *request, struct sn_failure *why)
{
	int fds[REQUEST_FDS];
	unsigned count = REQUEST_FDS;
	struct sn_request *head = &request->head;
	long got = channel_receive(control, head, sizeof *head, request->body, sizeof request->body, fds, &count);
	if (got <= 0)
		return false;
	if (take_fds(request, fds, count) || got < (long)sizeof *head || head->version != SN_WIRE_VERSION ||
	    head->rlimit_count > SN_MAX_RLIMITS) {
		bad(why, "header");
	} else if (request->body_fd < 0) {
		if ((uint64_t)got - sizeof *head == head->body_bytes)
			unpack(request, request->body, why);
		else
			bad(why, "body");
	} else {
		long body = sys_map(head->body_bytes, PROT_READ, MAP_PRIVATE, request->body_fd);
		if (body < 0 && body > -4096)
			fail(why, SN_STAGE_REQUEST, body, "body");
		else
			unpack(request, (const char *)body, why);
	}
	return true;
}

/* For init, whose memory a clone of an interpreter does not share: the body of the guest's request at the guest's address. */
int request_show(const struct plan *plan, const struct request *request, struct sn_failure *why)
{
	enum { NOREPLACE = 0x100000 };
	if (!plan_warm(plan) || request->body_fd < 0)
		return 0;
	long at = (long)request->cwd; /* the body's first byte */
	long got = sys(SYS_mmap, at, request->head.body_bytes, PROT_READ, MAP_PRIVATE | NOREPLACE, request->body_fd, 0);
	return got == at ? 0 : fail(why, SN_STAGE_REQUEST, got < 0 && got > -4096 ? got : EEXIST, "body");
}

void request_hide(const struct plan *plan, const struct request *request)
{
	if (plan_warm(plan) && request->body_fd >= 0)
		sys(SYS_munmap, request->cwd, request->head.body_bytes);
}

static int make_parents(const char *path, struct sn_failure *why)
{
	char so_far[4096];
	for (size_t i = 0; path[i]; i++) {
		if (path[i] != '/' || i >= sizeof so_far)
			continue;
		memcpy(so_far, path, i);
		so_far[i] = 0;
		long result = sys(SYS_mkdirat, AT_FDCWD, so_far, 0755);
		if (result < 0 && result != -EEXIST)
			return fail(why, SN_STAGE_FILES, result, path);
	}
	return 0;
}

/* From the memfd without mapping it: init's own high-water mark is the floor of what a guest is charged with. */
static long write_part(int fd, const struct request *request, const char *data, uint64_t size)
{
	if (request->body_fd < 0)
		return sys(SYS_write, fd, data, size);
	off_t offset = data - request->cwd; /* cwd is the body's first byte */
	return sys(SYS_sendfile, fd, request->body_fd, &offset, size);
}

static int place_file(const struct request *request, const struct sn_file *file, const char *name, const char *data,
		      struct sn_failure *why)
{
	if (make_parents(name, why))
		return -1;
	owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(why, SN_STAGE_FILES, fd, name);
	for (uint64_t done = 0; done < file->size;) {
		long wrote = write_part(fd, request, data + done, file->size - done);
		if (wrote <= 0)
			return fail(why, SN_STAGE_FILES, wrote < 0 ? wrote : EIO, name);
		done += (uint64_t)wrote;
	}
	long result = sys(SYS_fchmod, fd, file->mode);
	return result < 0 ? fail(why, SN_STAGE_FILES, result, name) : 0;
}

/* Into the private workspace, before the guest's program runs: by the guest-to-be, or by init where it fills the box. Names are relative and were checked by the host. */
int request_place_files(const struct plan *plan, const struct request *request, struct sn_failure *why)
{
	if (!request->head.files)
		return 0;
	long result = sys(SYS_chdir, plan_text(plan, plan->head->workspace_at));
	if (result < 0)
		return fail(why, SN_STAGE_FILES, result, plan_text(plan, plan->head->workspace_at));
	const struct sn_file *file = request->file_records;
	for (uint32_t i = 0; i < request->head.files; i++, file = file_after(file))
		if (place_file(request, file, file_name(file), file_data(file), why))
			return -1;
	sys(SYS_chdir, "/");
	return 0;
}
