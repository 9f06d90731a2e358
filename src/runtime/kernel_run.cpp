#include "runtime/kernel_run.h"

#include "runtime/thread_pool.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace qd::runtime {

KernelRun::KernelRun(const artifact::Artifact &artifact, const QdRuntimeApi &api, RunObserver *observer)
    : artifact(artifact), observer(observer) {
  context.api = &api;
  context.runtime = this;
}

KernelRun::~KernelRun() { releaseTemporaries(); }

void KernelRun::releaseTemporaries() {
  for (Temporary *item = temporaries.exchange(nullptr, std::memory_order_acquire); item;) {
    Temporary *next = item->next;
    free(item->block); // the item lies within
    item = next;
  }
}

void KernelRun::fail(int32_t site, const uint64_t *values) {
  if (!hasFailed.exchange(true)) {
    failedSite = site;
    failedThread = getThreadNumber();
    if (size_t(site) < artifact.sites.size()) failedValues.assign(values, values + artifact.sites[size_t(site)].countValues());
  }
  cancel();
}

void KernelRun::print(int32_t site, const uint64_t *values) {
  std::lock_guard lock(printing);
  bool isCheck = artifact.sites[size_t(site)].kind != artifact::Site::Kind::Print;
  if (isCheck && !reported.insert(site).second) return;
  printed.push_back(uint64_t(site));
  printed.insert(printed.end(), values, values + artifact.sites[size_t(site)].countValues());
}

void KernelRun::finishRound() {
  releaseTemporaries();
  claims.clear();
}

bool KernelRun::claim(uint64_t address, int32_t loop, uint64_t iteration) {
  std::lock_guard lock(claiming);
  const bool isUpdate = loop < 0;
  Claim &claim = claims[{isUpdate ? ~loop : loop, address}];
  auto isOther = [&](std::optional<uint64_t> &known) { return known.value_or(iteration) != iteration; };
  if (isOther(claim.writer) || (!isUpdate && (claim.hasManyUpdaters || isOther(claim.updater)))) return false;
  if (isUpdate) claim.hasManyUpdaters |= isOther(claim.updater);
  (isUpdate ? claim.updater : claim.writer) = iteration;
  return true;
}

std::vector<uint64_t> KernelRun::takePrinted() {
  std::lock_guard lock(printing);
  return std::exchange(printed, {});
}

void KernelRun::failBecause(std::string why) {
  if (!hasFailed.exchange(true)) reason = std::move(why);
  cancel();
}

void KernelRun::failForMemory() {
  if (!hasFailed.exchange(true)) isOutOfMemory = true;
  cancel();
}

void *KernelRun::allocateTemporary(int64_t bytes) {
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
