// artifact.h: what a compiled kernel is. The compiler makes it, the cache keeps it, the launcher runs it. Plain data.
#pragma once

#include "layout/tensor_layout.h"
#include "support/scalar_type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace qd::artifact {

/// One step from an object to something it refers to.
struct PathStep {
  enum class Kind : uint8_t {
    Attribute,      ///< getattr(object, name)
    Item,           ///< object[index]
    FunctionGlobal, ///< object.__globals__[name], falling back to builtins; the object is a function, func or kernel
    FunctionClosure ///< the closure cell `name` of the object
  };
  Kind kind = Kind::Attribute;
  std::string name;
  int64_t index = 0;
  bool operator==(const PathStep &) const = default;
};

/// How to reach a Python object at a launch: from an argument or from the kernel's own function, step by step.
struct Path {
  enum class Root : uint8_t { Argument, Kernel };
  Root root = Root::Argument;
  uint32_t argument = 0; ///< position of the parameter (0 is `self` of a method)
  std::vector<PathStep> steps;
  bool operator==(const Path &) const = default;
};

/// A number that the host reads from the argument block before it launches: steps in postfix order, on 64-bit integers. It sizes a launch
/// and nothing else: compiled code computes its own bounds. No steps: only the device knows.
struct LaunchExpr {
  struct Step {
    enum class Kind : uint8_t { Constant, Argument, Add, Sub, Mul, Div, Min, Max };
    Kind kind = Kind::Constant;
    support::ScalarType type = support::ScalarType::I64; ///< argument
    int64_t value = 0;                                   ///< constant, or offset of the argument
  };
  std::vector<Step> steps; ///< never more than kMaxDepth numbers wait for each other
  static constexpr size_t kMaxDepth = 16;

  bool isKnown() const { return !steps.empty(); }
  /// Sums wrap like those of the code, products end at the ends of the type; a quotient is rounded down, and 0 where the divisor is.
  int64_t evaluate(const uint8_t *arguments) const;
};

inline constexpr const char *kTooManyIterations = "a loop has at most 2**63 - 1 iterations, and these bounds give more";

/// Which elements of a container code touches: along each axis the first index and the last, where the host can know them before a launch.
struct Region {
  struct Axis {
    LaunchExpr first, last;
  };
  bool isEmpty = true;
  std::vector<Axis> axes; ///< none: any elements
};

/// Below this many iterations a vector would be half empty.
inline constexpr int64_t kManyElements = 8;

/// A value that the compiled code reads at each launch.
struct Input {
  enum class Kind : uint8_t {
    Value, ///< a scalar, vector or matrix: converted to `type` and stored component after component
    Tensor ///< a container: stored as QdTensorArgument; its layout must equal `layout` (extents kDynamic: any)
  };
  Kind kind = Kind::Value;
  Path path;
  std::string name; ///< the user's name for it, for messages
  uint32_t offset = 0;
  layout::ValueType type;
  layout::TensorLayout layout;
  bool isField = false; ///< tensor: a field, else an array (ndarray, NumPy, torch)
  bool isWritten = false;
  bool isUpdated = false; ///< tensor: by atomic operations
  bool isSpread = false;  ///< tensor: written by iterations that run side by side, each of which takes its elements to be memory of its own
  /// Another input reaches the same memory, and the code knows. Without this, a field overlaps no other input of the launch, and an array
  /// that is updated none other that is.
  bool mayAlias = false;
  /// Tensor: an array that overlaps no other input. Iterations of a serial loop that write it run at once.
  bool isUnaliased = false;
  uint32_t manyAxes = 0, fewAxes = 0; ///< tensor: axes (bits) that have kManyElements or more, and those that may not
  Region read, written; ///< tensor: for tapes; additions read nothing. Derived: `read` as it was before, `written` without a look
};

/// Something that compilation looked at and baked in. The launcher describes the object at `path` (support: launch/fingerprint.h)
/// and compares; what the description covers depends on the kind.
struct Dependency {
  enum class Kind : uint8_t {
    Value,    ///< a constant: type and value (numbers, strings, None, enums, dtypes, tuples, lists, dicts, host vectors, NumPy scalars and
              ///< small arrays)
    Function, ///< Python function, func or kernel: its code (not its globals: those have their own paths)
    Type,     ///< only the type of the object (an instance whose members were read through it; a class)
    Identity, ///< this very object; never valid on disk
    Absent    ///< the path led nowhere (hasattr was false)
  };
  Kind kind = Kind::Value;
  Path path;
  std::vector<uint8_t> digest; ///< filled in by the launcher before the artifact is published
};

/// Where in the user's source something stands.
struct SourceLocation {
  std::string file;
  std::string function;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0; ///< lines from 1, columns from 0, as in Python's ast
};

/// A print, an assertion or a check in the code. `fragments` are literal texts and operands in turn.
struct Site {
  enum class Kind : uint8_t { Print, Assert, Bounds, Overflow, DivisionByZero, PrintError, View, Recursion, Gradient };
  struct Fragment {
    std::string text; ///< literal text, or the format spec of the operand
    bool isOperand = false;
    bool isThread = false;  ///< stands for the number of the thread that got here
    layout::ValueType type; ///< operand: how many 64-bit values it takes and how they read
  };
  Kind kind = Kind::Assert;
  std::vector<Fragment> fragments;
  std::vector<SourceLocation> frames; ///< innermost last: the chain of functions

  /// How many 64-bit values the operands take.
  size_t countValues() const {
    size_t count = 0;
    for (const Fragment &fragment : fragments) count += fragment.isOperand ? size_t(fragment.type.componentCount()) : 0;
    return count;
  }
};

/// What became of a parallel loop, or of a serial one that runs several iterations at once, for reports.
struct LoopReport {
  std::vector<SourceLocation> frames;
  uint32_t lanes = 1;     ///< iterations that run side by side in one vector
  std::string whyScalar;  ///< why there is one lane only; empty when there are more
  uint32_t registers = 0; ///< reductions kept in registers
  uint32_t copies = 0;    ///< containers that chunks may update private copies of
  int64_t chunk = 0;      ///< iterations that are enough work to hand to a thread; 0: one thread runs all
};

/// What the gradient of a sequential loop keeps of the way forward, for reports.
struct CheckpointReport {
  std::vector<SourceLocation> frames;
  uint32_t states = 0;  ///< variables at the start of iterations, kept by one thread at most; 0: no derivative asks for them
  uint32_t bytes = 0;   ///< of all these states
  bool keepsAll = true; ///< false: iterations in between are computed again
};

/// One kernel of a device that runs grids of blocks of threads, launched with QdGpuLaunch (runtime/kernel_abi.h) as its only parameter. Any
/// grid of at least one block gives the right result: threads go on with further iterations until there are none.
struct DeviceTask {
  std::string entry; ///< name of the function in the binary
  LaunchExpr iterations;
  uint32_t blockSize = 1;
  uint32_t perThread = 1;  ///< iterations that a thread takes at a time
  uint32_t maxBlocks = 0;  ///< grids may not be larger; 0: any size
  uint32_t branch = 0;     ///< 0: waits for all tasks before it; others that follow each other wait for those of their own number only
  bool waits = false;      ///< it waits itself for the tasks before it, and may be launched before they have ended
  bool isTogether = false; ///< its blocks wait for each other: all run at the same time, and none has a thread without an iteration
  LaunchExpr sharedBytes;  ///< of shared memory for a block; none when it is more than kMaxSharedBytes
  static constexpr int64_t kMaxSharedBytes = 32768;
  static constexpr uint32_t kMaxBranches = 14;
};

/// Tasks that run once, and again while a byte of the scratch block is not 0 after a round.
struct Repeat {
  uint32_t firstTask = 0, endTask = 0;
  uint32_t slot = 0; ///< offset of the byte
};

struct Artifact {
  std::string kernel;  ///< qualified name, for messages
  std::string backend; ///< "cpu", "cuda"
  std::vector<uint8_t> binary;
  std::string libraryFolder;     ///< where the binary is put for debuggers and profilers to read; empty: nowhere
  std::vector<DeviceTask> tasks; ///< to launch one after the other; empty where the binary runs its own tasks
  std::vector<Repeat> repeats;   ///< of `tasks`, outer ones before those inside them
  uint32_t argumentBytes = 0;
  uint32_t scratchBytes = 0;
  std::vector<Input> inputs;
  std::vector<Dependency> dependencies;
  std::vector<Site> sites;
  /// Returned values, flattened; each component is stored at its offset. How they are put together again is the annotation's matter.
  struct Result {
    layout::ValueType type;
    uint32_t offset = 0;
  };
  std::vector<Result> results;
  uint32_t resultBytes = 0;
  bool hasPrint = false;
  bool drawsRandom = false; ///< devices with grids: the code looks at the seed and the number of the launch
  bool cacheable = true;    ///< false: something was read that no path describes
  std::vector<LoopReport> loops;
  std::vector<CheckpointReport> checkpoints;
  uint32_t operations = 0; ///< of the lowered IR, for reports
};

std::vector<uint8_t> serialize(const Artifact &artifact);
/// Throws support::Error when the bytes are not an artifact of this version.
Artifact deserialize(const uint8_t *bytes, size_t size);

} // namespace qd::artifact
