// profiler.cpp: collects times of launches and tasks
//
// In:   spans of time, from the launching threads and from the events of a device.
// Out:  count, total, minimum and maximum of each entry, and the spans themselves.
#include "runtime/profiler.h"
#include "runtime/profiler_ranges.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace qd::runtime {

Profiler &Profiler::get() {
  static auto *profiler = new Profiler; // threads may outlive the destructors of the process
  return *profiler;
}

/// The name of a kernel's function, its number among the kernels and among its own versions: `step_c3_1`.
static std::string nameVersion(const std::string &kernel) {
  static std::vector<std::pair<std::string, int>> kernels;
  auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto &known) { return known.first == kernel; });
  if (found == kernels.end()) found = kernels.insert(found, {kernel, 0});
  return kernel.substr(kernel.rfind('.') + 1) + "_c" + std::to_string(found - kernels.begin()) + "_" + std::to_string(found->second++);
}

uint32_t Profiler::addKernel(const artifact::Artifact &artifact) {
  std::lock_guard lock(mutex);
  auto first = uint32_t(entries.size());
  const std::string name = nameVersion(artifact.kernel);
  for (size_t i = 0; i < artifact.taskNames.size(); ++i)
    entries.push_back({name + "_kernel_" + std::to_string(i) + "_" + artifact.taskNames[i]});
  entries.push_back({name, true});
  return first;
}

bool Profiler::beginRange(uint32_t entry) {
  auto *push = Ranges::get().push;
  if (!push) return false;
  std::lock_guard lock(mutex);
  push(entries[entry].name.c_str());
  return true;
}

void Profiler::record(const Span &span) {
  std::lock_guard lock(mutex);
  Entry &entry = entries[span.entry];
  ++entry.count;
  entry.total += span.duration;
  entry.least = std::min(entry.least, span.duration);
  entry.most = std::max(entry.most, span.duration);
  if (spans.size() < kMaxSpans) spans.push_back(span);
}

std::vector<Profiler::Entry> Profiler::getEntries() {
  std::lock_guard lock(mutex);
  return entries;
}

std::vector<Profiler::Span> Profiler::getSpans() {
  std::lock_guard lock(mutex);
  return spans;
}

void Profiler::clear() {
  std::lock_guard lock(mutex);
  for (Entry &entry : entries) entry = {std::move(entry.name), entry.isLaunch};
  spans.clear();
}

uint64_t getThreadId() {
  static thread_local const auto id = uint64_t(syscall(SYS_gettid));
  return id;
}

} // namespace qd::runtime
