#include "backends/cpu/steps.h"
#include "support/file.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"

#include <csignal>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace qd::backends::cpu {

static support::File requireFile(support::File file) {
  if (!file) throw std::runtime_error(std::string("no file in memory for the linker: ") + strerror(errno));
  return file;
}

namespace {

/// Bytes that lld opens by a path: a file in memory or, where the process may not make files of that size, a pipe that a thread fills.
class Input {
public:
  explicit Input(const Object &object) : file(support::makeMemoryFile(object.data(), object.size())) {
    if (file) return;
    int ends[2] = {-1, -1};
    (void)pipe2(ends, O_CLOEXEC);
    file = requireFile(support::File(ends[0]));
    writer = std::async(std::launch::async, [&object, end = ends[1]] {
      sigset_t broken;
      sigemptyset(&broken);
      sigaddset(&broken, SIGPIPE); // lld has ended early
      pthread_sigmask(SIG_BLOCK, &broken, nullptr);
      (void)support::File(end).write(object.data(), object.size());
    });
  }
  ~Input() { file.close(); } // and then waits for the writer, which has no reader any more
  std::string getPath() const { return file.getPath(); }

private:
  support::File file;
  std::future<void> writer;
};

} // namespace

// lld reads and writes files. The library goes through a pipe: lld replaces regular files by renaming, which no descriptor survives, and a
// temporary folder is one more thing that may be full or read-only.
std::vector<uint8_t> linkSharedLibrary(llvm::ArrayRef<Object> objects, bool strip) {
  int ends[2] = {-1, -1};
  (void)pipe2(ends, O_CLOEXEC);
  support::File reading = requireFile(support::File(ends[0])), writing = requireFile(support::File(ends[1]));
  std::vector<std::string> words = {"ld.lld", "-shared",         "--threads=1",    "-z", "norelro",
                                    "-z",     "noseparate-code", "--no-rosegment", "-o", writing.getPath()};
  if (strip) words.push_back("--strip-all");
  std::deque<Input> inputs;
  for (const Object &object : objects) words.push_back(inputs.emplace_back(object).getPath());
  std::vector<const char *> arguments;
  for (const std::string &word : words) arguments.push_back(word.c_str());
  auto library = std::async(std::launch::async, [&] { return reading.readAll(); });
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  bool linked;
  {
    // lld keeps its state in globals.
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    linked = lld::elf::link(arguments, stream, stream, /*exitEarly=*/false, /*disableOutput=*/false);
    lld::CommonLinkerContext::destroy();
  }
  writing.close();
  std::vector<uint8_t> bytes = library.get();
  if (!linked || bytes.empty()) throw std::runtime_error("lld: " + messages);
  return bytes;
}

} // namespace qd::backends::cpu
