// stages.cpp: times, dumps, replacements and the end of the stages of one compile
//
// In:   the end of each stage, with what it has made.
// Out:  dumps, times for reports, and whether the compile goes on.
#include "backends/stages.h"

#include "support/options.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace qd::backends {

/// "1_frontend.mlir" → "frontend"
static llvm::StringRef getStageName(llvm::StringRef file) { return llvm::sys::path::stem(file).ltrim("0123456789_"); }

/// Creates a folder for this specialization of a kernel.
static std::string makeFolder(llvm::StringRef parent, llvm::StringRef kernel) {
  for (unsigned count = 0;; ++count) {
    llvm::SmallString<128> path(parent);
    llvm::sys::path::append(path, count == 0 ? kernel.str() : kernel.str() + "." + std::to_string(count));
    llvm::sys::fs::create_directories(parent);
    std::error_code error = llvm::sys::fs::create_directory(path, /*IgnoreExisting=*/false);
    if (!error) return std::string(path);
    if (error != std::errc::file_exists) return "";
  }
}

Stages::Stages(std::string kernel, const std::string &folder, std::string last, llvm::raw_ostream *lastOutput)
    : kernel(std::move(kernel)), last(std::move(last)), lastOutput(lastOutput) {
  if (!folder.empty()) this->folder = makeFolder(folder, this->kernel);
}

/// The file of the option replay for one kernel, whose name replaces `{kernel}` in the path; empty if that file does not exist.
static std::string findReplayOf(const std::string &kernel, std::string path) {
  constexpr std::string_view mark = "{kernel}";
  size_t place = path.find(mark);
  if (place == std::string::npos) return path;
  path.replace(place, mark.size(), kernel);
  return llvm::sys::fs::exists(path) ? path : "";
}

Stages::Stages(llvm::StringRef qualifiedName, const support::Options &options)
    : kernel(qualifiedName.substr(qualifiedName.rfind('.') + 1)), lastOutput(nullptr) {
  using support::Option;
  const std::string &only = options.getText(Option::dump_kernel);
  if (!only.empty() && only != qualifiedName && only != kernel) return;
  if (const std::string &parent = options.getText(Option::dump); !parent.empty()) folder = makeFolder(parent, kernel);
  last = options.getText(Option::stop_after);
  replay = findReplayOf(kernel, options.getText(Option::replay));
}

void Stages::dump(llvm::StringRef file, Print print) {
  if (folder.empty()) return;
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, file);
  // A dump that cannot be written does not fail the compile.
  std::error_code error;
  llvm::raw_fd_ostream output(path, error);
  if (!error) print(output);
  output.clear_error();
}

bool Stages::finish(llvm::StringRef file, Print print) {
  llvm::StringRef stage = getStageName(file);
  finish(stage);
  dump(file, print);
  started = Clock::now();
  bool isLast = !last.empty() && stage == last;
  stopped = isLast || abandoned;
  if (isLast && lastOutput) print(*lastOutput);
  return !stopped;
}

void Stages::finish(llvm::StringRef stage) {
  Clock::time_point now = Clock::now();
  times.push_back({stage.str(), std::chrono::duration<double>(now - started).count()});
  started = now;
}

void Stages::printTimes(llvm::raw_ostream &output) const {
  for (const Time &time : times) output << llvm::format("%10.3f ms  ", time.seconds * 1000) << time.stage << '\n';
}

} // namespace qd::backends
