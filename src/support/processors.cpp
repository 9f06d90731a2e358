// processors.cpp: counts the processors that this process may use
//
// In:   the affinity of the calling thread; the quotas of control groups, which limit containers and jobs of schedulers.
// Out:  a number of threads. More threads than a quota pays for would use it up early in each period, and then all stand still.
#include "support/processors.h"

#include "support/file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <sched.h>
#include <sstream>
#include <string>
#include <thread>

namespace qd::support {

static std::string read(const std::string &path) {
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  std::vector<uint8_t> bytes = file.readAll();
  return {bytes.begin(), bytes.end()};
}

/// Processors that a quota pays for, rounded up; `limit` if there is none. "max" and -1 stand for no quota.
static int applyQuota(const std::string &quota, const std::string &period, int limit) {
  double time = atof(quota.c_str()), every = atof(period.c_str());
  return time > 0 && every > 0 ? int(std::clamp(std::ceil(time / every), 1.0, double(limit))) : limit;
}

/// The quotas of a control group and of those around it. In a container, the group may have a path from outside: then only the root exists.
static int applyQuotas(const std::string &root, std::string group, bool isUnified, int limit) {
  for (;; group.resize(group.rfind('/'))) {
    const std::string folder = root + (group == "/" ? "" : group);
    // "quota period" in one file (version 2), or a file for each.
    const std::string both = read(folder + (isUnified ? "/cpu.max" : "/cpu.cfs_quota_us"));
    limit = applyQuota(both, isUnified ? both.substr(std::min(both.find(' '), both.size())) : read(folder + "/cpu.cfs_period_us"), limit);
    if (group.empty() || group == "/") return limit;
  }
}

int countProcessors() {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : int(std::thread::hardware_concurrency());
  std::istringstream groups(read("/proc/self/cgroup")); // lines "number:controllers:path"
  for (std::string line; count > 1 && std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), root = "/sys/fs/cgroup";
    const bool isUnified = controllers.empty(); // version 2 of control groups
    if (isUnified || ("," + controllers + ",").find(",cpu,") != std::string::npos)
      count = applyQuotas(isUnified ? root : root + "/" + controllers, line.substr(second + 1), isUnified, count);
  }
  return std::max(count, 1);
}

} // namespace qd::support
