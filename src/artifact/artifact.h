// artifact.h: a compiled kernel as plain data. The compiler makes it, the disk cache stores it, the launcher runs it.
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
    Attribute,       ///< getattr(object, name)
    Item,            ///< object[index]
    FunctionGlobal,  ///< object.__globals__[name], falling back to builtins; the object is a function, func or kernel
    FunctionClosure, ///< the closure cell `name` of the object
    Entry            ///< value number `index` of a dict whose key there has the text `name`, or of any dict
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

/// A number that the host computes from the argument block before a launch: steps in postfix order, on 64-bit integers. It only sizes a
/// launch; compiled code computes its own bounds. No steps: only the device can compute it.
struct LaunchExpr {
  struct Step {
    enum class Kind : uint8_t { Constant, Argument, Add, Sub, Mul, Div, Min, Max };
    Kind kind = Kind::Constant;
    support::ScalarType type = support::ScalarType::I64; ///< argument
    int64_t value = 0;                                   ///< constant, or offset of the argument
  };
  std::vector<Step> steps; ///< the evaluation stack holds at most kMaxDepth numbers
  static constexpr size_t kMaxDepth = 16;

  bool isKnown() const { return !steps.empty(); }
  /// Sums wrap as in compiled code; products saturate at the limits of the type; a quotient is rounded down, and is 0 when the divisor is
  /// 0.
  int64_t evaluate(const uint8_t *arguments) const;
};

inline constexpr const char *kTooManyIterations = "a loop has at most 2**63 - 1 iterations, and these bounds give more";

/// The elements of a container that code accesses: the first and the last index along each axis, where the host can compute them before a
/// launch.
struct Region {
  struct Axis {
    LaunchExpr first, last;
  };
  bool isEmpty = true;
  std::vector<Axis> axes; ///< none: any element
};

/// With fewer iterations, less than half of a vector would be used.
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
  bool isSpread = false;  ///< tensor: written by parallel iterations, each of which assumes that its elements share no memory
  /// Another input aliases this one, and the code accounts for that. Without this flag, a field overlaps no other input of the launch, and
  /// an updated array no other updated array.
  bool mayAlias = false;
  /// Tensor: an array that overlaps no other input: writes of it do not change what is read from others, and serial loops may widen.
  bool isUnaliased = false;
  bool isLoaded = false;              ///< tensor: code of a derived kernel reads its elements
  uint32_t manyAxes = 0, fewAxes = 0; ///< tensor: axes (bits) that have kManyElements or more, and those that may not
  Region read, written; ///< tensor: for tapes; an addition reads nothing. Replay: `read` before the launch, `written` without being read
};

/// Memory of one launch: a packed container with the extents of another one.
struct Temporary {
  uint32_t offset = 0, like = 0; ///< of their QdTensorArguments
  uint32_t elementBytes = 0;
  std::vector<int64_t> extents; ///< kDynamic: known at launch
};
/// The bytes of the memory, at most INT64_MAX. Stores its extents in the argument block.
int64_t placeTemporary(const Temporary &temporary, uint8_t *arguments);

/// A Python object that compilation read and baked in. The launcher computes the digest of the object at `path` (launch/fingerprint.h) and
/// compares it; the kind decides what the digest covers.
struct Dependency {
  enum class Kind : uint8_t {
    Value,    ///< a constant: type and value (numbers, strings, None, enums, dtypes, tuples, lists, dicts, host vectors, NumPy scalars and
              ///< small arrays)
    Function, ///< Python function, func or kernel: its code (not its globals: those have their own paths)
    Type,     ///< only the type of the object (an instance whose members were read through it; a class)
    Identity, ///< the object itself; never valid on disk
    Absent    ///< no object at the end of the path (hasattr was false)
  };
  Kind kind = Kind::Value;
  Path path;
  std::vector<uint8_t> digest; ///< filled in by the launcher before the artifact is published
};

/// A range in the user's source.
struct SourceLocation {
  std::string file;
  std::string function;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0; ///< lines from 1, columns from 0, as in Python's ast
};

/// A print, an assertion or a check in the code. `fragments` are literal texts and operands in order.
struct Site {
  enum class Kind : uint8_t { Print, Assert, Bounds, Overflow, DivisionByZero, PrintError, View, Recursion, Gradient };
  struct Fragment {
    std::string text; ///< literal text, or the format spec of the operand
    bool isOperand = false;
    bool isThread = false;  ///< the number of the thread that reached the site
    layout::ValueType type; ///< operand: determines the number and interpretation of its 64-bit values
  };
  Kind kind = Kind::Assert;
  std::vector<Fragment> fragments;
  std::vector<SourceLocation> frames; ///< the chain of functions, innermost last

  /// Number of 64-bit values of all operands.
  size_t countValues() const {
    size_t count = 0;
    for (const Fragment &fragment : fragments) count += fragment.isOperand ? size_t(fragment.type.componentCount()) : 0;
    return count;
  }
};

/// A warning of the compiler, which is issued again when the artifact comes from the disk cache.
struct Warning {
  std::string category; ///< name of a class of Python's builtins
  std::string text;
  std::string file;
  uint32_t line = 0;
};

/// How a parallel loop, or a serial one that runs several iterations at once, was compiled; for reports.
struct LoopReport {
  std::vector<SourceLocation> frames;
  uint32_t lanes = 1;     ///< iterations that one vector computes at once
  std::string whyScalar;  ///< why there is only one lane; empty when there are more
  uint32_t registers = 0; ///< reductions kept in registers
  uint32_t copies = 0;    ///< containers of which chunks may update private copies
  int64_t chunk = 0;      ///< iterations that are worth handing to a thread; 0: one thread runs all
};

/// The checkpoints that the gradient of a sequential loop stores, for reports.
struct CheckpointReport {
  std::vector<SourceLocation> frames;
  uint32_t states = 0;  ///< variables stored at the start of iterations, at most by one thread; 0: no derivative needs them
  uint32_t bytes = 0;   ///< size of all these variables
  bool keepsAll = true; ///< false: iterations between checkpoints are recomputed
};

/// What reports and warnings tell about a kernel.
struct CompileReport {
  std::vector<LoopReport> loops;
  std::vector<CheckpointReport> checkpoints;
  std::vector<Warning> warnings;
  std::vector<Warning> assumptions; ///< of a gradient, on elements of which one is read and the other one is overwritten later
  uint32_t operations = 0;          ///< in the lowered IR
};

/// Claims of written elements (QdRuntimeApi::claim) with numbers from here on are those of parallel contexts, smaller ones those of loops.
inline constexpr int32_t kFirstContextClaim = 1 << 24;

/// The place of tasks and repeats among those that run concurrently.
struct Branch {
  uint32_t number = 0;  ///< 0: waits for all earlier tasks; equal numbers in a row wait only for tasks of the same number
  uint32_t context = 0; ///< branches of different contexts wait for each other
};

/// A grid kernel, launched with QdGpuLaunch (runtime/kernel_abi.h) as its only parameter. Any grid of at least one block gives the right
/// result: threads take further iterations until none are left.
struct DeviceTask {
  std::string entry; ///< name of the function in the binary
  LaunchExpr iterations;
  uint32_t blockSize = 1;
  uint32_t perThread = 1; ///< iterations that a thread takes at a time
  uint32_t maxBlocks = 0; ///< largest grid; 0: any size
  Branch branch;
  bool waits = false;        ///< its code waits for the earlier tasks, so it may be launched before they have ended
  bool isPersistent = false; ///< no more blocks than run at the same time
  bool takesRounds = false;  ///< its blocks may take iterations several times, so there may be fewer of them
  bool isLight = false;      ///< an iteration takes less time than the start of a block
  bool isTogether = false;   ///< its blocks wait for each other: all run at the same time, and every thread has an iteration
  uint32_t arrayBytes = 0;   ///< of shared memory, for arrays that are not part of the binary
  LaunchExpr sharedBytes;    ///< bytes of shared memory for private copies; not used when they exceed the target's limit
  static constexpr uint32_t kMaxBranches = 14;
  static constexpr uint32_t kTinyBlock = 64; ///< where there are many blocks of up to this size, each may take several rounds
};

/// Tasks that run once, and again while a byte of the scratch block is nonzero after a round.
struct Repeat {
  uint32_t firstTask = 0, endTask = 0;
  uint32_t slot = 0; ///< offset of the byte
  Branch branch;
};

struct Artifact {
  std::string kernel;  ///< qualified name, for messages
  std::string backend; ///< name of the target
  std::vector<uint8_t> binary;
  std::string libraryFolder;          ///< folder for a copy of the binary that debuggers and profilers read; empty: none
  std::vector<DeviceTask> tasks;      ///< launched one after the other; empty when the binary runs its own tasks
  std::vector<std::string> taskNames; ///< kind and user's name of each task of a kernel that is timed; empty for other kernels
  std::vector<Repeat> repeats;        ///< repeated ranges of `tasks`, outer ones before inner ones
  uint32_t argumentBytes = 0;
  uint32_t scratchBytes = 0;
  std::vector<Input> inputs;
  std::vector<Temporary> temporaries;
  std::vector<Dependency> dependencies;
  std::vector<Site> sites;
  /// Returned values, flattened; each component is stored at its offset. The annotation determines how they are reassembled.
  struct Result {
    layout::ValueType type;
    uint32_t offset = 0;
  };
  std::vector<Result> results;
  uint32_t resultBytes = 0;
  bool hasPrint = false;
  bool drawsRandom = false; ///< the code reads the random seed and the number of the launch
  std::string ungraded;     ///< gradient of a kernel whose float containers have no gradients at all: the first of these; or empty
  bool cacheable = true;    ///< false: compilation read an object that no path describes
  CompileReport report;
};

std::vector<uint8_t> serialize(const Artifact &artifact);
/// Throws support::Error when the bytes are not an artifact of this version.
Artifact deserialize(const uint8_t *bytes, size_t size);

} // namespace qd::artifact
