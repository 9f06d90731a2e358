#include "backends/cpu/object.h"

#include "backends/cpu/abandonable.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/CodeGen/CodeGenTargetMachineImpl.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <fcntl.h>
#include <list>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace qd::backends::cpu {

/// From this many instructions on, passes that compare all hoisted constants with each other cost more than they bring.
constexpr unsigned kLargeModule = 10000;

llvm::Expected<Object> emitObject(llvm::Module &module, llvm::TargetMachine &machine, OutputKind kind) {
  Object result;
  llvm::raw_svector_ostream output(result);
  Abandonable ownedPipeline(std::make_unique<llvm::legacy::PassManager>());
  llvm::legacy::PassManager &pipeline = *ownedPipeline;
  // What addPassesToEmitFile does, but for the choice of passes.
  auto *modules = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig *config = static_cast<llvm::CodeGenTargetMachineImpl &>(machine).createPassConfig(pipeline);
  config->setDisableVerify(true);
  // Processors that we care for order instructions themselves.
  config->disablePass(&llvm::PostRASchedulerID);
  if (module.getInstructionCount() > kLargeModule) {
    config->disablePass(&llvm::EarlyMachineLICMID);
    config->disablePass(&llvm::MachineCSELegacyID);
  }
  pipeline.add(config);
  pipeline.add(modules);
  if (config->addISelPasses()) return llvm::createStringError("this processor has no code generator");
  config->addMachinePasses();
  config->setInitialized();
  auto type = kind == OutputKind::Object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addAsmPrinter(pipeline, output, nullptr, type, modules->getMMI().getContext()))
    return llvm::createStringError("this processor has no assembler");
  pipeline.add(llvm::createFreeMachineFunctionPass());
  pipeline.run(module);
  return result;
}

namespace {

class Descriptor {
public:
  explicit Descriptor(int value) : value(value) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  void reset() {
    if (value >= 0) close(value);
    value = -1;
  }
  int get() const { return value; }
  /// A path under which lld can open it.
  std::string getPath() const { return "/proc/self/fd/" + std::to_string(value); }

private:
  int value;
};

bool writeAll(int descriptor, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.drop_front(size_t(count));
  }
  return true;
}

std::vector<uint8_t> readAll(int descriptor) {
  std::vector<uint8_t> bytes;
  for (;;) {
    size_t size = bytes.size();
    bytes.resize(size + (64 << 10));
    ssize_t count = read(descriptor, bytes.data() + size, bytes.size() - size);
    bytes.resize(size + size_t(std::max<ssize_t>(count, 0)));
    if (count == 0 || (count < 0 && errno != EINTR)) return bytes;
  }
}

} // namespace

// lld reads and writes files. Objects are memfds. The library goes through a pipe: lld replaces regular files by renaming, which no
// descriptor survives, and a temporary folder is one more thing that may be full or read-only.
llvm::Expected<std::vector<uint8_t>> linkSharedLibrary(llvm::ArrayRef<Object> objects) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return llvm::createStringError("no descriptor for the linker's output");
  Descriptor reading(ends[0]), writing(ends[1]);
  std::string outputPath = writing.getPath();
  std::vector<const char *> arguments = {"ld.lld",          "-shared",        "--threads=1", "-z", "norelro",         "-z",
                                         "noseparate-code", "--no-rosegment", "--strip-all", "-o", outputPath.c_str()};
  std::list<Descriptor> inputs;
  std::list<std::string> paths;
  for (const Object &object : objects) {
    Descriptor &input = inputs.emplace_back(memfd_create("object", MFD_CLOEXEC));
    if (input.get() < 0 || !writeAll(input.get(), {object.data(), object.size()}))
      return llvm::createStringError("no memory for an object file");
    arguments.push_back(paths.emplace_back(input.getPath()).c_str());
  }
  std::vector<uint8_t> library;
  std::thread reader([&] { library = readAll(reading.get()); });
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
  writing.reset();
  reader.join();
  if (!linked || library.empty()) return llvm::createStringError("lld: " + messages);
  return library;
}

} // namespace qd::backends::cpu
