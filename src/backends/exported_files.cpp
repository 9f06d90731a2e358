// exported_files.cpp: the code of a kernel with what a program without Python needs to run it
//
// In:   an artifact without assumptions about its arguments.
// Out:  the code; a manifest in JSON of arguments, results, tasks and checks; a C header with the same facts as types and functions.
// Here: the header of a kernel for the processor contains kernel_abi.h and export_runtime.h, so that a call is one function.
#include "backends/exported_files.h"

// Embedded below, too: as includes they are compiled against each other, and ccache knows of them.
#include "runtime/kernel_abi.h"

#include "backends/export_runtime.h"
#include "backends/gpu/device_entries.h"
#include "backends/target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

namespace qd::backends {

using artifact::Input;
using artifact::LaunchExpr;
using artifact::Site;
using layout::ValueType;
using llvm::json::Array;
using llvm::json::Object;
using support::ScalarType;

namespace {

constexpr char kAbi[] = {
#embed "../runtime/kernel_abi.h"
    , 0};
constexpr char kRuntime[] = {
#embed "export_runtime.h"
    , 0};

/// Types of C with the same bits; half floats are integers of 16 bits.
llvm::StringRef getCType(ScalarType type) {
  static constexpr llvm::StringLiteral kTypes[] = {"uint8_t",  "int8_t",   "int16_t",  "int32_t", "int64_t", "uint8_t", "uint16_t",
                                                   "uint32_t", "uint64_t", "uint16_t", "float",   "double",  "uint16_t"};
  return kTypes[size_t(type)];
}

std::string makeIdentifier(llvm::StringRef name) {
  std::string text;
  for (char letter : name) text += llvm::isAlnum(letter) ? letter : '_';
  return text.empty() || llvm::isDigit(text[0]) ? "_" + text : text;
}

std::string getSiteText(const Site &site) {
  std::string text;
  for (const Site::Fragment &fragment : site.fragments) text += fragment.isOperand ? "{}" : fragment.text;
  return text;
}

Object describeType(const ValueType &type) {
  Array shape;
  if (type.rank > 0) shape.push_back(type.rows);
  if (type.rank > 1) shape.push_back(type.columns);
  return Object{{"dtype", std::string(getName(type.scalar))}, {"shape", std::move(shape)}};
}

/// Extents or strides; null for those that the caller gives.
Array listNumbers(const std::vector<int64_t> &numbers) {
  Array list;
  for (int64_t number : numbers) list.push_back(number == layout::kDynamic ? llvm::json::Value(nullptr) : llvm::json::Value(number));
  return list;
}

class Exporter {
public:
  Exporter(const artifact::Artifact &artifact, const std::string &name, const std::string &symbol, const std::string &targetName,
           const Target &target)
      : artifact(artifact), name(name), symbol(symbol), targetName(targetName), target(target) {}

  std::vector<std::pair<std::string, std::string>> run() {
    addCode();
    Array codes;
    for (const auto &[file, content] : files) codes.push_back(file);
    manifest["code"] = std::move(codes);
    std::string header = makeHeader(); // names the members of the arguments
    files.emplace_back(name + ".json", llvm::formatv("{0:2}\n", llvm::json::Value(describe())).str());
    files.emplace_back(name + ".h", std::move(header));
    return std::move(files);
  }

private:
  void addCode() {
    gpu::Entries entries;
    if (artifact.binary.size() < 16 || !entries.read(artifact.binary.data())) {
      files.emplace_back(name + target.getFileSuffix(), std::string(artifact.binary.begin(), artifact.binary.end()));
      return;
    }
    for (const gpu::Entries::Entry &entry : entries.entries) {
      std::string code(reinterpret_cast<const char *>(entry.code.data()), entry.code.size() * 4);
      while (!code.empty() && code.back() == 0 && target.isText()) code.pop_back(); // fills up the last word
      files.emplace_back(name + "." + entry.name + target.getFileSuffix(), std::move(code));
    }
  }

  //--- The manifest ---

  Object describe() {
    Array inputs, results, tasks, repeats, sites, constants;
    for (auto [index, input] : llvm::enumerate(artifact.inputs)) {
      Object item = describeType(input.kind == Input::Kind::Tensor ? input.layout.element : input.type);
      item["name"] = input.name;
      item["member"] = members[index];
      item["offset"] = input.offset;
      item["kind"] = input.kind == Input::Kind::Tensor ? input.isField ? "field" : "array" : "value";
      if (input.kind == Input::Kind::Tensor) {
        item["extents"] = listNumbers(input.layout.extents);
        item["strides"] = listNumbers(input.layout.strides);
        item["component_stride"] = input.layout.componentStride;
        item["is_written"] = input.isWritten;
      }
      inputs.push_back(std::move(item));
    }
    for (const artifact::Artifact::Result &result : artifact.results) {
      Object item = describeType(result.type);
      item["offset"] = result.offset;
      results.push_back(std::move(item));
    }
    for (const artifact::DeviceTask &task : artifact.tasks)
      tasks.push_back(
          Object{{"entry", task.entry},
                 {"block_size", task.blockSize},
                 {"iterations", task.iterations.isKnown() ? llvm::json::Value(toC(task.iterations)) : llvm::json::Value(nullptr)},
                 {"iterations_per_thread", task.perThread},
                 {"max_blocks", task.maxBlocks},
                 {"blocks_wait_for_each_other", task.isTogether},
                 {"shared_bytes", task.sharedBytes.isKnown() ? toC(task.sharedBytes) : "0"}});
    for (const artifact::Repeat &repeat : artifact.repeats)
      repeats.push_back(Object{{"first_task", repeat.firstTask}, {"end_task", repeat.endTask}, {"scratch_byte", repeat.slot}});
    for (const Site &site : artifact.sites) {
      Object item{{"is_print", site.kind == Site::Kind::Print}, {"text", getSiteText(site)}};
      if (!site.frames.empty()) item["file"] = site.frames.back().file, item["line"] = site.frames.back().line;
      sites.push_back(std::move(item));
    }
    manifest["format"] = 1;
    manifest["kernel"] = artifact.kernel;
    manifest["backend"] = artifact.backend;
    manifest["target"] = targetName;
    if (artifact.tasks.empty()) manifest["symbol"] = symbol;
    manifest["argument_bytes"] = artifact.argumentBytes;
    manifest["result_bytes"] = artifact.resultBytes;
    manifest["scratch_bytes"] = artifact.scratchBytes;
    manifest["draws_random_numbers"] = artifact.drawsRandom;
    manifest["inputs"] = std::move(inputs);
    manifest["results"] = std::move(results);
    manifest["tasks"] = std::move(tasks);
    manifest["repeats"] = std::move(repeats);
    manifest["sites"] = std::move(sites);
    return std::move(manifest);
  }

  //--- The header ---

  /// Declares a member at its offset, behind unnamed bytes if need be.
  void addMember(std::string &out, uint32_t &end, uint32_t offset, uint32_t bytes, const llvm::Twine &declaration) {
    if (offset > end) out += llvm::formatv("  unsigned char unused_{0}[{1}];\n", end, offset - end).str();
    out += ("  " + declaration + ";\n").str();
    end = offset + bytes;
  }

  static std::string declare(const ValueType &type, llvm::StringRef member) {
    std::string count = type.rank > 0 ? "[" + std::to_string(type.componentCount()) + "]" : "";
    return (getCType(type.scalar) + " " + member + count).str();
  }
  static uint32_t countBytes(const ValueType &type) { return uint32_t(getByteSize(type.scalar)) * uint32_t(type.componentCount()); }

  std::string makeStructs() {
    std::string out = "/* The block of arguments. */\ntypedef struct " + symbol + "_arguments {\n";
    uint32_t end = 0;
    members.resize(artifact.inputs.size());
    std::vector<size_t> order(artifact.inputs.size());
    for (size_t index = 0; index < order.size(); ++index) order[index] = index;
    llvm::sort(order, [&](size_t a, size_t b) { return artifact.inputs[a].offset < artifact.inputs[b].offset; });
    std::string checks;
    for (size_t index : order) {
      const Input &input = artifact.inputs[index];
      std::string &member = members[index] = makeIdentifier(input.name);
      if (llvm::count(members, member) > 1) member += "_" + std::to_string(index);
      if (input.kind == Input::Kind::Value) {
        addMember(out, end, input.offset, countBytes(input.type), declare(input.type, member));
      } else {
        const layout::TensorLayout &layout = input.layout;
        auto extents = size_t(llvm::count(layout.extents, layout::kDynamic));
        size_t strides = llvm::is_contained(layout.strides, layout::kDynamic) ? layout.extents.size() : 0;
        std::string body = (getCType(layout.element.scalar) + " *data;").str();
        if (extents) body += " int64_t extents[" + std::to_string(extents) + "];";
        if (strides) body += " int64_t strides[" + std::to_string(strides) + "]; /* in bytes */";
        addMember(out, end, input.offset, uint32_t(8 + 8 * (extents + strides)), "struct { " + body + " } " + member);
      }
      checks += llvm::formatv("static_assert(offsetof({0}_arguments, {1}) == {2}, \"arguments\");\n", symbol, member, input.offset).str();
    }
    if (artifact.argumentBytes > end || end == 0)
      out += llvm::formatv("  unsigned char unused_{0}[{1}];\n", end, std::max(artifact.argumentBytes, 1u) - end).str();
    out += "} " + symbol + "_arguments;\n" + checks;
    out += "\n/* The returned values. */\ntypedef struct " + symbol + "_result {\n";
    end = 0;
    for (auto [index, result] : llvm::enumerate(artifact.results))
      addMember(out, end, result.offset, countBytes(result.type), declare(result.type, "value_" + std::to_string(index)));
    return out + (end == 0 ? "  unsigned char unused;\n" : "") + "} " + symbol + "_result;\n";
  }

  std::string toC(const LaunchExpr &expression) const {
    std::vector<std::string> stack;
    for (const LaunchExpr::Step &step : expression.steps) {
      using Kind = LaunchExpr::Step::Kind;
      if (step.kind == Kind::Constant) {
        stack.push_back(llvm::formatv("INT64_C({0})", step.value).str());
      } else if (step.kind == Kind::Argument) {
        stack.push_back(llvm::formatv("(int64_t)*(const {0} *)((const char *)arguments + {1})", getCType(step.type), step.value).str());
      } else {
        static constexpr llvm::StringLiteral kNames[] = {"", "", "qd_add", "qd_sub", "qd_mul", "qd_div", "qd_min", "qd_max"};
        std::string right = std::move(stack.back());
        stack.pop_back();
        stack.back() = (kNames[size_t(step.kind)] + "(" + stack.back() + ", " + right + ")").str();
      }
    }
    return stack.empty() ? "" : stack.back();
  }

  std::string makeTasks() const {
    std::string out =
        "\n/* The launches, one after the other: entry, threads of a block, blocks that are useful. A launch of any number of\n"
        "   blocks gives the right result; those that need all blocks at once say so in the manifest. */\n";
    out += "#ifndef QD_EXPORT_NUMBERS_H\n#define QD_EXPORT_NUMBERS_H\n"
           "static inline int64_t qd_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }\n"
           "static inline int64_t qd_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }\n"
           "static inline int64_t qd_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }\n"
           "static inline int64_t qd_div(int64_t a, int64_t b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }\n"
           "static inline int64_t qd_min(int64_t a, int64_t b) { return a < b ? a : b; }\n"
           "static inline int64_t qd_max(int64_t a, int64_t b) { return a > b ? a : b; }\n#endif\n";
    for (auto [index, task] : llvm::enumerate(artifact.tasks)) {
      std::string count = task.iterations.isKnown() ? toC(task.iterations) : "INT64_C(1048576)";
      out +=
          llvm::formatv("#define {0}_ENTRY_{1} \"{2}\"\n#define {0}_BLOCK_SIZE_{1} {3}\n", symbol, index, task.entry, task.blockSize).str();
      out += llvm::formatv("static inline int64_t {0}_blocks_{1}(const {0}_arguments *arguments) {{\n  (void)arguments;\n"
                           "  return qd_max(1, qd_min({2}, qd_div({3} + {4} - 1, {4})));\n}\n",
                           symbol, index, task.maxBlocks ? task.maxBlocks : 65535, count, task.blockSize * task.perThread)
                 .str();
    }
    return out;
  }

  std::string makeCall() const {
    return llvm::formatv(R"(
/* Runs the kernel on the calling thread. `entry` is {0}, linked or found by dlsym; returns 0 or why it stopped (see above). */
static inline int {0}_call(QdKernelFunction entry, const {0}_arguments *arguments, {0}_result *result, uint64_t random_seed,
                           uint64_t launch_index) {{
  return qd_run(entry, &qd_serial_api, arguments, result, {1}, random_seed, launch_index);
}

#ifdef __cplusplus
extern "C" {{
#endif
void {0}(QdKernelContext *context);
#ifdef __cplusplus
}
#endif
)",
                         symbol, artifact.scratchBytes)
        .str();
  }

  std::string makeHeader() {
    std::string guard = llvm::StringRef(makeIdentifier(symbol)).upper() + "_H";
    std::string out =
        "/* " + name + ".h: kernel " + artifact.kernel + " of Quadrants for " + targetName + ".\n *\n" +
        " * Arrays that the kernel updates overlap no other array. The manifest describes arguments, tasks and checks.\n */\n";
    out += "#ifndef " + guard + "\n#define " + guard + "\n\n#include <assert.h>\n#include <stddef.h>\n#include <stdint.h>\n\n";
    // Each guard of a part stands once in a program with several kernels.
    auto addOnce = [&](llvm::StringRef text, llvm::StringRef once) {
      std::string body = text.str();
      if (size_t at = body.find("#pragma once\n"); at != std::string::npos) body.erase(at, strlen("#pragma once\n"));
      out += ("#ifndef " + once + "\n#define " + once + "\n" + body + "#endif\n\n").str();
    };
    addOnce(kAbi, "QD_KERNEL_ABI_H");
    if (artifact.tasks.empty()) addOnce(kRuntime, "QD_EXPORT_RUNTIME_H");
    out += makeStructs();
    out += artifact.tasks.empty() ? makeCall() : makeTasks();
    for (auto [index, site] : llvm::enumerate(artifact.sites))
      if (!site.frames.empty())
        out += llvm::formatv("/* site {0}: line {1}, kernel {2} */\n", index, site.frames.back().line, site.frames.back().function).str();
    return out + "\n#endif\n";
  }

  const artifact::Artifact &artifact;
  const std::string &name, &symbol, &targetName;
  const Target &target;
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> members; ///< of the struct of arguments, for each input
  Object manifest;
};

} // namespace

std::vector<std::pair<std::string, std::string>> makeExportedFiles(const artifact::Artifact &artifact, const std::string &name,
                                                                   const std::string &symbol, const std::string &targetName,
                                                                   const Target &target) {
  return Exporter(artifact, name, symbol, targetName, target).run();
}

} // namespace qd::backends
