// accessed_regions.cpp: find which elements of its containers a kernel reads and writes
//
// In:   the frontend's IR, while accesses are as the user wrote them; for findReplacedRegions the derived kernel after all passes.
// Out:  for each container an interval of indices per axis, whose bounds are launch expressions. An index that is not understood may be any
//       index; that costs only memory.
// Here: an undo log saves what a later call overwrites of what an earlier one has read. Without regions `x[t + 1, i] = f(x[t, i])`, called
//       for each t, would save all of x each time.
#include "passes/accessed_regions.h"

#include "ir/attributes.h"
#include "ir/call_graph.h"
#include "ir/memory.h"
#include "passes/launch_exprs.h"
#include "passes/source_locations.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

using artifact::LaunchExpr;
using artifact::Region;
using Kind = LaunchExpr::Step::Kind;

namespace {

using Axis = Region::Axis;

bool isSame(const LaunchExpr &one, const LaunchExpr &other) {
  return llvm::equal(one.steps, other.steps,
                     [](const auto &a, const auto &b) { return a.kind == b.kind && a.type == b.type && a.value == b.value; });
}

Axis unite(const Axis &one, const Axis &other) {
  return {isSame(one.first, other.first) ? one.first : limitDepth(combine(Kind::Min, one.first, other.first)),
          isSame(one.last, other.last) ? one.last : limitDepth(combine(Kind::Max, one.last, other.last))};
}

class Finder {
public:
  Finder(ModuleOp module, artifact::Artifact &artifact) : artifact(artifact), calls(module) {
    for (auto [number, input] : llvm::enumerate(artifact.inputs))
      if (input.kind == artifact::Input::Kind::Tensor) inputs[input.offset] = unsigned(number);
  }

  void run(ModuleOp module) {
    module.walk([&](Operation *op) {
      auto access = dyn_cast<MemoryAccessOpInterface>(op);
      if (!access || access.needsContent())
        for (Value place : listReadPlaces(op)) record(place, &artifact::Input::read);
      for (Value place : listWrittenPlaces(op)) record(place, &artifact::Input::written);
      // A function may read and write all of a container that it gets as an argument.
      if (isa<CallOp>(op))
        for (Value operand : op->getOperands())
          if (artifact::Input *input = isa<ir::TensorType>(operand.getType()) ? findInput(operand) : nullptr)
            input->read = input->written = {false, {}};
    });
    for (artifact::Input &input : artifact.inputs)
      if (!input.isWritten) input.written = {};
  }

private:
  artifact::Input *findInput(Value tensor) {
    auto argument = tensor.getDefiningOp<TensorArgumentOp>();
    auto found = argument ? inputs.find(argument.getOffset()) : inputs.end();
    return found == inputs.end() ? nullptr : &artifact.inputs[found->second];
  }

  void record(Value place, Region artifact::Input::*which) {
    ElementOp element = findElement(place);
    artifact::Input *input = element ? findInput(element.getTensor()) : nullptr;
    if (!input) return;
    Region &region = input->*which;
    if (!region.isEmpty && region.axes.empty()) return;
    SmallVector<Axis> axes = llvm::map_to_vector(element.getIndices(), [&](Value index) { return find(index, 0); });
    if (region.isEmpty)
      region = {false, {axes.begin(), axes.end()}};
    else
      for (auto [known, axis] : llvm::zip(region.axes, axes)) known = unite(known, axis);
  }

  Axis find(Value value, int depth) {
    constexpr int kMaxDepth = 12;
    if (depth > kMaxDepth || !isa<IntegerType>(value.getType())) return {};
    // The entry is unknown until it is computed: a value may depend on itself.
    auto [entry, isNew] = found.try_emplace(value);
    if (!isNew) return entry->second;
    Axis axis = compute(value, depth);
    return found[value] = axis;
  }

  Axis compute(Value value, int depth) {
    if (LaunchExpr number = limitDepth(findLaunchExpr(value)); number.isKnown() && isExact(value)) return {number, number};
    if (auto argument = dyn_cast<BlockArgument>(value)) return findArgument(argument, depth);
    Operation *op = value.getDefiningOp();
    if (auto load = dyn_cast<LoadOp>(op)) return findVariable(load.getRef(), depth);
    if (auto cast = dyn_cast<CastOp>(op)) return find(cast.getOperand(), depth + 1);
    if (auto select = dyn_cast<SelectOp>(op)) return unite(find(select.getTrueValue(), depth + 1), find(select.getFalseValue(), depth + 1));
    if (auto binary = dyn_cast<BinaryOp>(op)) return findBinary(binary, depth);
    return {};
  }

  /// Whether the host computes exactly the number of the code. Other launch expressions only size launches and may be rounded differently.
  static bool isExact(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto cast = dyn_cast<CastOp>(op)) return isExact(cast.getOperand());
    auto binary = dyn_cast<BinaryOp>(op);
    return !binary || (binary.getBinaryKind() != BinaryKind::raw_div && isExact(binary.getLhs()) && isExact(binary.getRhs()));
  }

  Axis findBinary(BinaryOp op, int depth) {
    Axis left = find(op.getLhs(), depth + 1), right = find(op.getRhs(), depth + 1);
    std::optional<int64_t> factor = findInteger(op.getRhs());
    auto both = [&](Kind kind) {
      return Axis{limitDepth(combine(kind, left.first, right.first)), limitDepth(combine(kind, left.last, right.last))};
    };
    switch (op.getBinaryKind()) {
    case BinaryKind::add: return both(Kind::Add);
    case BinaryKind::sub:
      return {limitDepth(combine(Kind::Sub, left.first, right.last)), limitDepth(combine(Kind::Sub, left.last, right.first))};
    case BinaryKind::min: return both(Kind::Min);
    case BinaryKind::max: return both(Kind::Max);
    case BinaryKind::mul: return factor && *factor >= 0 ? both(Kind::Mul) : Axis();
    case BinaryKind::floor_div: return factor && *factor > 0 ? both(Kind::Div) : Axis();
    case BinaryKind::mod: return factor && *factor > 0 ? Axis{makeConstant(0), makeConstant(*factor - 1)} : Axis();
    default: return {};
    }
  }

  Axis findArgument(BlockArgument argument, int depth) {
    Operation *owner = argument.getOwner()->getParentOp();
    unsigned number = argument.getArgNumber();
    if (auto loop = dyn_cast<ForOp>(owner)) {
      std::optional<int64_t> step = loop.getStep().empty() ? 1 : findInteger(loop.getStep()[number]);
      if (!step || *step == 0) return {};
      Axis lower = find(loop.getLower()[number], depth + 1), upper = find(loop.getUpper()[number], depth + 1);
      LaunchExpr one = makeConstant(1);
      if (*step > 0) return {lower.first, limitDepth(combine(Kind::Sub, upper.last, one))};
      return {limitDepth(combine(Kind::Add, upper.first, one)), lower.last};
    }
    auto function = dyn_cast<FuncOp>(owner);
    std::optional<Axis> all;
    for (CallOp call : function ? calls.getCalls(function) : ArrayRef<CallOp>()) {
      Axis given = find(call.getArguments()[number], depth + 1);
      all = all ? unite(*all, given) : given;
    }
    return all.value_or(Axis());
  }

  /// The range of a variable: the union of the ranges of all values that are stored in it.
  Axis findVariable(Value place, int depth) {
    if (!place.getDefiningOp<LocalOp>()) return {};
    std::optional<Axis> all;
    for (Operation *user : place.getUsers()) {
      if (isa<LoadOp>(user)) continue;
      auto store = dyn_cast<StoreOp>(user);
      if (!store) return {};
      Axis stored = find(store.getValue(), depth + 1);
      all = all ? unite(*all, stored) : stored;
    }
    return all.value_or(Axis());
  }

  artifact::Artifact &artifact;
  CallGraph calls;
  DenseMap<uint32_t, unsigned> inputs; ///< by offset
  DenseMap<Value, Axis> found;
};

artifact::Warning describeAssumption(StringRef container, Location load) {
  std::vector<artifact::SourceLocation> places;
  collectLocations(load, places);
  std::string text = ("the gradient takes the element of '" + container +
                      "' that is read here to be another one than those that the kernel overwrites later: their indices do not tell. If it "
                      "is one of them, the gradient is wrong; write to another container, or in another kernel")
                         .str();
  return {"UserWarning", text, places.empty() ? "" : places.back().file, places.empty() ? 0 : places.back().line};
}

} // namespace

void findAccessedRegions(ModuleOp module, artifact::Artifact &artifact) { Finder(module, artifact).run(module); }

void findReplacedRegions(ModuleOp module, artifact::Artifact &artifact) {
  DenseSet<uint32_t> loaded;
  module.walk([&](LoadOp load) {
    if (TensorArgumentOp container = findContainer(load.getRef())) loaded.insert(container.getOffset());
  });
  for (artifact::Input &input : artifact.inputs) input.isLoaded = loaded.contains(input.offset);
  for (KernelOp kernel : module.getOps<KernelOp>())
    if (auto load = kernel->getAttrOfType<ArrayAttr>(kAssumesDistinct))
      artifact.report.assumptions.push_back(describeAssumption(cast<StringAttr>(load[0]).getValue(), cast<LocationAttr>(load[1])));
  for (KernelOp kernel : module.getOps<KernelOp>())
    if (auto offsets = kernel->getAttrOfType<DenseI32ArrayAttr>(kReadsEntryValues))
      for (artifact::Input &input : artifact.inputs)
        if (llvm::is_contained(offsets.asArrayRef(), int32_t(input.offset))) input.read.isEmpty = false;
  for (KernelOp kernel : module.getOps<KernelOp>())
    if (auto offsets = kernel->getAttrOfType<DenseI32ArrayAttr>(kReplaces)) {
      DenseSet<uint32_t> used;
      kernel.walk([&](TensorArgumentOp argument) { used.insert(argument.getOffset()); });
      for (artifact::Input &input : artifact.inputs) {
        input.isWritten &= input.kind == artifact::Input::Kind::Tensor && used.contains(input.offset);
        if (llvm::is_contained(offsets.asArrayRef(), int32_t(input.offset))) input.written.isEmpty = false;
      }
    }
}

} // namespace qd::passes
