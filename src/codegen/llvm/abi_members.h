// abi_members.h: the struct members of runtime/kernel_abi.h that emitted code reads and calls
//
// One list per struct gives the names, the offsets and, for routines, the results. Emitted code cannot use members that are missing here.
#pragma once

#include "runtime/kernel_abi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace qd::codegen {

// clang-format off
#define QD_CONTEXT_MEMBERS(X) \
  X(kApi, api) X(kArguments, arguments) X(kResult, result) X(kScratch, scratch) X(kRandomSeed, random_seed) \
  X(kLaunchIndex, launch_index) X(kFailed, failed) X(kSingleThreaded, single_threaded)

#define QD_API_MEMBERS(X) \
  X(kParallelFor, parallel_for) X(kFail, fail) X(kPrint, print) X(kAllocateTemporary, allocate_temporary) X(kClaim, claim) \
  X(kFinishRound, finish_round) X(kRunBlocks, run_blocks) X(kSynchronize, synchronize) X(kShuffle, shuffle) X(kBallot, ballot) X(kActiveThreads, active_threads) \
  X(kThreadIndex, thread_index) X(kStackLimit, stack_limit) X(kMustStop, must_stop) X(kFinishTask, finish_task) \
  X(kWaitBriefly, wait_briefly)

#define QD_NAME(name, member) name,
enum ContextField : unsigned { QD_CONTEXT_MEMBERS(QD_NAME) kContextFields };
enum ApiField : unsigned { QD_API_MEMBERS(QD_NAME) kApiFields };
#undef QD_NAME
// clang-format on

enum class AbiResult { Nothing, Address, Int32, Int64 };

template <typename Result, typename... Operands> constexpr AbiResult getAbiResult(Result (*)(Operands...)) {
  if constexpr (std::is_void_v<Result>)
    return AbiResult::Nothing;
  else if constexpr (std::is_pointer_v<Result>)
    return AbiResult::Address;
  else {
    static_assert(std::is_integral_v<Result> && (sizeof(Result) == 4 || sizeof(Result) == 8), "callRuntime knows no such result");
    return sizeof(Result) == 4 ? AbiResult::Int32 : AbiResult::Int64;
  }
}

struct ApiMember {
  size_t offset;
  AbiResult result;
};

#define QD_OFFSET(name, member) offsetof(QdKernelContext, member),
inline constexpr std::array<size_t, kContextFields> kContextOffsets = {QD_CONTEXT_MEMBERS(QD_OFFSET)};
#undef QD_OFFSET

#define QD_MEMBER(name, member) ApiMember{offsetof(QdRuntimeApi, member), getAbiResult(decltype(QdRuntimeApi::member){})},
inline constexpr std::array<ApiMember, kApiFields> kApiMembers = {QD_API_MEMBERS(QD_MEMBER)};
#undef QD_MEMBER

static_assert(sizeof(QdRuntimeApi) == kApiFields * sizeof(void (*)()), "a routine of QdRuntimeApi is missing in QD_API_MEMBERS");
// The runtime's private members come last, after the members that emitted code may read.
static_assert(offsetof(QdKernelContext, runtime) == kContextOffsets.back() + sizeof(QdKernelContext::single_threaded) &&
                  sizeof(QdKernelContext) == offsetof(QdKernelContext, runtime) + sizeof(QdKernelContext::runtime),
              "a member of QdKernelContext is missing in QD_CONTEXT_MEMBERS");
// Loads of these members are emitted with these types.
static_assert(sizeof(QdKernelContext::failed) == 4 && sizeof(QdKernelContext::single_threaded) == 4);
static_assert(sizeof(QdKernelContext::random_seed) == 8 && sizeof(QdKernelContext::launch_index) == 8);

} // namespace qd::codegen
