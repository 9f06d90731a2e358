// marks.h: LLVM's assumptions (llvm/IR/Assumptions.h) about routines, for the compiler's passes
#pragma once

/// Of a routine that is wrong if its own quotients are not rounded right; the other ones allow for errors.
#define QD_EXACT "ext_qd_exact_quotients"
