/* The kernel's filter language, as far as seccomp.py writes it: what a filter would answer to a call. Run by the supervisor for
 * each call that it is asked about; pure.
 *
 * Jumps only go forward, so a program ends after as many steps as it has instructions.
 */

#include "launcher.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

enum { ARGS_AT = offsetof(struct seccomp_data, args), UNKNOWN = SECCOMP_RET_ERRNO | EPERM };

/* A 32-bit word of the call; *read gets a bit for each argument that was looked at. */
static bool load(const struct seccomp_data *call, uint32_t at, uint32_t *word, uint32_t *read)
{
	if (at % 4 || at > sizeof *call - sizeof *word)
		return false;
	memcpy(word, (const char *)call + at, sizeof *word);
	if (at >= ARGS_AT)
		*read |= 1U << (at - ARGS_AT) / sizeof call->args[0];
	return true;
}

/* What is no program, or none of ours, refuses. */
uint32_t bpf_answer(const struct sock_filter *program, uint32_t count, const struct seccomp_data *call, uint32_t *read)
{
	uint32_t word = 0;
	*read = 0;
	for (uint64_t at = 0; at < count; at++) {
		const struct sock_filter *step = program + at;
		switch (step->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (!load(call, step->k, &word, read))
				return UNKNOWN;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			word &= step->k;
			break;
		case BPF_JMP | BPF_JA:
			at += step->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += word == step->k ? step->jt : step->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += word >= step->k ? step->jt : step->jf;
			break;
		case BPF_RET | BPF_K:
			return step->k;
		default:
			return UNKNOWN;
		}
	}
	return UNKNOWN;
}
