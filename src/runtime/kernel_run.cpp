// kernel_run.cpp: collects failures, prints and temporaries of one launch
//
// In:   calls of compiled code, from any thread.
// Out:  the first failure, the printed records, and whether the launch must stop.
#include "runtime/kernel_run.h"

#include "runtime/profiler.h"
#include "runtime/profiler_ranges.h"
#include "runtime/thread_pool.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace qd::runtime {

KernelRun::KernelRun(const artifact::Artifact &artifact, const QdRuntimeApi &api, RunObserver *observer)
    : artifact(artifact), observer(observer) {
  context.api = &api;
  context.runtime = this;
}

KernelRun::~KernelRun() {
  if (temporaries.load(std::memory_order_relaxed)) releaseTemporaries();
  endRange(); // of a launch that threw
}

void KernelRun::releaseTemporaries() {
  for (Temporary *item = temporaries.exchange(nullptr, std::memory_order_acquire); item;) {
    Temporary *next = item->next;
    free(item->block); // `item` lies within the block
    item = next;
  }
}

/// Runs `body`; when it cannot allocate memory, the launch fails and the result is false.
template <typename Body> bool KernelRun::tryWith(Body &&body) noexcept {
  try {
    body();
    return true;
  } catch (const std::bad_alloc &) {
    failForMemory();
    return false;
  }
}

void KernelRun::beginTasks(uint32_t entry) {
  firstEntry = entry;
  isInRange = Profiler::get().beginRange(getLaunchEntry());
  launchBegan = taskBegan = readClock();
}

void KernelRun::finishTask(int32_t task) noexcept {
  uint64_t now = readClock(), began = std::exchange(taskBegan, now);
  tryWith([&] { Profiler::get().record({firstEntry + uint32_t(task), false, getThreadId(), began, now - began}); });
}

void KernelRun::endTasks() {
  Profiler::get().record({getLaunchEntry(), false, getThreadId(), launchBegan, readClock() - launchBegan});
  endRange();
}

void KernelRun::endRange() {
  if (std::exchange(isInRange, false)) Ranges::get().pop();
}

void KernelRun::fail(int32_t site, const uint64_t *values) noexcept {
  if (!hasFailed.exchange(true)) {
    failedThread = getThreadNumber();
    size_t count = size_t(site) < artifact.sites.size() ? artifact.sites[size_t(site)].countValues() : 0;
    if (tryWith([&] { failedValues.assign(values, values + count); }))
      failedSite = site;
    else
      isOutOfMemory = true;
  }
  cancel();
}

void KernelRun::print(int32_t site, const uint64_t *values) noexcept {
  tryWith([&] {
    std::lock_guard lock(reporting);
    if (!reports) reports = std::make_unique<Reports>();
    bool isCheck = artifact.sites[size_t(site)].kind != artifact::Site::Kind::Print;
    if (isCheck && reports->checks.contains(site)) return;
    std::vector<uint64_t> &printed = reports->printed;
    const size_t count = artifact.sites[size_t(site)].countValues();
    if (size_t wanted = printed.size() + count + 1; wanted > printed.capacity())
      printed.reserve(2 * wanted); // a record is stored completely or not at all
    if (isCheck) reports->checks.insert(site);
    printed.push_back(uint64_t(site));
    printed.insert(printed.end(), values, values + count);
  });
}

bool KernelRun::mustStop() noexcept {
  // Only the launching thread, number 0, handles signals.
  if (int32_t expected = QD_LOOK; observer && getThreadNumber() == 0 &&
                                  __atomic_compare_exchange_n(&context.failed, &expected, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    observer->checkSignals();
  return isStopped();
}

void KernelRun::finishRound(bool isInSection) noexcept {
  releaseTemporaries();
  if (reports)
    std::erase_if(reports->claims, [&](const auto &entry) { return !isInSection || entry.first.first < artifact::kFirstContextClaim; });
}

bool KernelRun::claim(uint64_t address, int32_t loop, uint64_t iteration) noexcept {
  bool isOwn = true;
  tryWith([&] {
    std::lock_guard lock(reporting);
    if (!reports) reports = std::make_unique<Reports>();
    const bool isUpdate = loop < 0;
    Claim &claim = reports->claims[{isUpdate ? ~loop : loop, address}];
    auto isOther = [&](std::optional<uint64_t> &known) { return known.value_or(iteration) != iteration; };
    isOwn = !isOther(claim.writer) && (isUpdate || (!claim.hasManyUpdaters && !isOther(claim.updater)));
    if (!isOwn) return;
    if (isUpdate) claim.hasManyUpdaters |= isOther(claim.updater);
    (isUpdate ? claim.updater : claim.writer) = iteration;
  });
  return isOwn;
}

std::vector<uint64_t> KernelRun::takePrinted() {
  std::lock_guard lock(reporting);
  return reports ? std::exchange(reports->printed, {}) : std::vector<uint64_t>();
}

void KernelRun::failBecause(std::string why) noexcept {
  if (!hasFailed.exchange(true)) reason = std::move(why);
  cancel();
}

void KernelRun::failForMemory() noexcept {
  if (!hasFailed.exchange(true)) isOutOfMemory = true;
  cancel();
}

void *KernelRun::allocateTemporary(int64_t bytes) noexcept {
  constexpr size_t kAlignment = 64;
  void *block = bytes < 0 ? nullptr : calloc(1, size_t(bytes) + 2 * kAlignment);
  if (!block) {
    failForMemory();
    return nullptr;
  }
  auto *item = new (block) Temporary{nullptr, block};
  item->next = temporaries.load(std::memory_order_relaxed);
  while (!temporaries.compare_exchange_weak(item->next, item, std::memory_order_release, std::memory_order_relaxed)) {}
  return reinterpret_cast<void *>((uintptr_t(block) + sizeof(Temporary) + kAlignment - 1) & ~(kAlignment - 1));
}

} // namespace qd::runtime
