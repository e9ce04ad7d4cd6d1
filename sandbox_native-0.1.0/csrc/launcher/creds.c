/* Who the guest is: no capability in any set, no way to get one, its own session keyring. The uid itself comes from the
 * user namespace's map.
 */

#include "launcher.h"

#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

/* Without a user namespace of its own (`bare`) init has the caller's capabilities, none as a rule: then what takes one is left as it is.
 * no_new_privs keeps the guest from gaining any. */
static bool is_left(long result, bool bare)
{
	return bare && result == -EPERM;
}

/* Init, while it still has its capabilities: what can only be given up, and is inherited. */
int creds_prepare(bool bare, uint32_t *held, struct sn_failure *why)
{
	long result = sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (result < 0)
		return fail(why, SN_STAGE_CREDS, result, "no_new_privs");
	*held |= SN_HELD_NO_NEW_PRIVS;
	result = sys(SYS_prctl, PR_SET_SECUREBITS,
		     SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
			     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		     0, 0, 0);
	if (result < 0 && !is_left(result, bare))
		return fail(why, SN_STAGE_CREDS, result, "securebits");
	*held |= result < 0 ? 0 : SN_HELD_SECUREBITS;
	result = sys(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (result < 0)
		return fail(why, SN_STAGE_CREDS, result, "ambient capabilities");
	for (int cap = 0; cap < 64; cap++) {
		result = sys(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (result == -EINVAL && cap > CAP_BLOCK_SUSPEND)
			break; /* the kernel knows no more */
		if (is_left(result, bare))
			break;
		if (result < 0)
			return fail(why, SN_STAGE_CREDS, result, "capability bounding set");
	}
	result = sys(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	if (result < 0 && !is_absent(result)) /* what refuses it refuses the guest's calls too */
		return fail(why, SN_STAGE_KEYRING, result, "session keyring");
	*held |= result < 0 ? 0 : SN_HELD_KEYRING;
	return 0;
}

/* The guest's side: the sets that a process carries. */
int creds_drop(uint32_t *held, struct sn_failure *why)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};
	long result = sys(SYS_capset, &header, none);
	if (result < 0)
		return fail(why, SN_STAGE_CREDS, result, "capabilities");
	*held |= SN_HELD_CAPS;
	return 0;
}
