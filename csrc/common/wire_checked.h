/* wire.h, plan.h and run.h for the compiler, with the sizes that both sides count on. */
#pragma once

#include <stdint.h>

#include "wire.h"

#include "plan.h"
#include "run.h"

_Static_assert(sizeof(struct sn_failure) == 8 + SN_ITEM_BYTES, "struct sn_failure has no holes");
_Static_assert(sizeof(struct sn_op) == 48, "struct sn_op has no holes");
_Static_assert(sizeof(struct sn_plan) == 160, "struct sn_plan has no holes");
_Static_assert(sizeof(struct sn_control) == 16 + 4 * SN_MAX_GAUGES + 8 + 16 + 4096, "struct sn_control has no holes");
_Static_assert(sizeof(struct sn_answer) == 8 + sizeof(struct sn_failure), "struct sn_answer has no holes");
_Static_assert(sizeof(struct sn_rlimit) == 16, "struct sn_rlimit has no holes");
_Static_assert(sizeof(struct sn_request) == 48 + 16 * SN_MAX_RLIMITS + 48, "struct sn_request has no holes");
_Static_assert(sizeof(struct sn_file) == 16, "struct sn_file has no holes");
_Static_assert(sizeof(struct sn_report) == 16 + 8 * 13 + 24 + sizeof(struct sn_failure), "struct sn_report has no holes");
_Static_assert(sizeof(struct sn_rule) == 32, "struct sn_rule has no holes");
_Static_assert(sizeof(struct sn_guard) == 24, "struct sn_guard has no holes");
_Static_assert(sizeof(struct sn_denial) == 64 + 2 * SN_DENIAL_PATH, "struct sn_denial has no holes");
_Static_assert(sizeof(struct sn_denials) == 16 + SN_MAX_DENIALS * sizeof(struct sn_denial), "struct sn_denials has no holes");
