// link_shared_library.cpp: objects → shared library, by lld inside the process, without files on disk
//
// In:   the bytes of object files.
// Out:  the bytes of a shared library.
#include "backends/steps.h"
#include "support/file.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace qd::backends {

// lld has global state. A fork waits for the linking thread: in the child no thread would finish and unlock the mutex.
static std::mutex linking;
[[maybe_unused]] static const int registered = pthread_atfork([] { linking.lock(); }, [] { linking.unlock(); }, [] { linking.unlock(); });

static support::File requireFile(support::File file) {
  if (!file) throw std::runtime_error(std::string("no file in memory for the linker: ") + strerror(errno));
  return file;
}

namespace {

/// Bytes that lld opens by path: a file in memory or, if the process may not create files of that size, a pipe that a thread fills.
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
      sigaddset(&broken, SIGPIPE); // lld may end early
      pthread_sigmask(SIG_BLOCK, &broken, nullptr);
      (void)support::File(end).write(object.data(), object.size());
    });
  }
  ~Input() { file.close(); } // then waits for the writer, whose pipe has no reader any more
  std::string getPath() const { return file.getPath(); }

private:
  support::File file;
  std::future<void> writer;
};

/// A pipe whose bytes a thread collects, so that the writer never blocks for long. After an exception, descriptors that lld has opened may
/// stay open: the collector then does not wait for the end of the pipe.
class Collector {
public:
  Collector() {
    int ends[2] = {-1, -1};
    (void)pipe2(ends, O_CLOEXEC);
    reading = requireFile(support::File(ends[0]));
    writing = requireFile(support::File(ends[1]));
    worker = std::thread([this] { collect(); });
  }
  ~Collector() { join(); }
  Collector(const Collector &) = delete;
  Collector &operator=(const Collector &) = delete;

  std::string getPath() const { return writing.getPath(); }
  /// Returns all bytes. The caller has closed all other writing ends.
  std::vector<uint8_t> finish() {
    join();
    if (isLost) throw std::bad_alloc();
    return std::move(bytes);
  }

private:
  void join() {
    writing.close();
    isOver = true;
    if (worker.joinable()) worker.join();
  }

  void collect() noexcept {
    constexpr int kMilliseconds = 20;
    uint8_t buffer[1 << 14];
    for (;;) {
      pollfd waiting{reading.get(), POLLIN, 0};
      bool wasOver = isOver;
      if (poll(&waiting, 1, kMilliseconds) == 0 && wasOver) return; // no writer is left
      if (!waiting.revents) continue;
      ssize_t count = read(reading.get(), buffer, sizeof buffer);
      if (count == 0 || (count < 0 && errno != EINTR)) return;
      try {
        if (!isLost) bytes.insert(bytes.end(), buffer, buffer + std::max<ssize_t>(count, 0));
      } catch (const std::bad_alloc &) { isLost = true; } // continue to read: lld waits for it
    }
  }

  support::File reading, writing;
  std::vector<uint8_t> bytes;
  std::atomic<bool> isOver{false};
  bool isLost = false; ///< read after the thread has ended
  std::thread worker;
};

} // namespace

// lld reads and writes files. The library goes through a pipe, for two reasons: lld replaces regular files by renaming, which descriptors
// do not follow, and a temporary folder may be full or read-only.
std::vector<uint8_t> linkSharedLibrary(llvm::ArrayRef<Object> objects, llvm::ArrayRef<std::string> flags) {
  Collector library;
  std::vector<std::string> words = {"ld.lld", "-shared", "--threads=1", "-o", library.getPath()};
  words.insert(words.end(), flags.begin(), flags.end());
  std::deque<Input> inputs;
  for (const Object &object : objects) words.push_back(inputs.emplace_back(object).getPath());
  std::vector<const char *> arguments;
  for (const std::string &word : words) arguments.push_back(word.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  bool linked;
  {
    std::lock_guard<std::mutex> lock(linking);
    linked = lld::elf::link(arguments, stream, stream, /*exitEarly=*/false, /*disableOutput=*/false);
    lld::CommonLinkerContext::destroy();
  }
  std::vector<uint8_t> bytes = library.finish();
  if (!linked && messages.find(strerror(ENOMEM)) != std::string::npos) throw std::bad_alloc();
  if (!linked || bytes.empty()) throw std::runtime_error("lld: " + messages);
  return bytes;
}

} // namespace qd::backends
