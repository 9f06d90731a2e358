// check_races.cpp: detect elements and outer variables that two iterations of a parallel loop, or two sections, write
//
// In:   tasks.
// Out:  a qd.claim before each plain store to an element, to a component of one, or to a variable from outside of the parallel loop. If the
//       loop has plain stores to a container or variable, also before its atomic updates. An exchange that stores a part of a word claims
//       the part. In sections of a parallel context a claim before stores to elements names the section; the context stands for the loop.
// Here: after tasks are known, before atomics become plain stores. Stores in functions that are not inlined are not checked.
#include "artifact/artifact.h"
#include "ir/attributes.h"
#include "ir/code.h"
#include "ir/memory.h"
#include "passes/accesses.h"
#include "passes/checks/assert_text.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DECL_CHECKRACES
#define GEN_PASS_DEF_CHECKRACES
#include "passes/passes.h.inc"

namespace {

/// The places of all scalars of a place.
SmallVector<Value> listComponents(Code code, Value place) {
  auto vector = dyn_cast<VectorType>(cast<RefType>(place.getType()).getPointee());
  if (!vector) return {place};
  SmallVector<Value> result;
  for (int64_t number = 0; number < vector.getNumElements(); ++number) {
    SmallVector<Value> indices;
    int64_t rest = number;
    for (int64_t extent : llvm::reverse(vector.getShape())) {
      indices.insert(indices.begin(), code.integer(rest % extent));
      rest /= extent;
    }
    result.push_back(code.component(place, indices));
  }
  return result;
}

/// Who writes.
struct Writer {
  ValueRange iteration;
  int32_t number; ///< of the loop or context
  StringRef name, others;
};

/// What the sections of a parallel context write.
struct Context {
  /// The plain stores and the updates of one container, and the sections that they are in.
  struct Container {
    SmallVector<std::pair<MemoryAccessOpInterface, int32_t>> accesses;
    DenseSet<int32_t> sections;
    bool isStored = false, isShared = false;
  };
  SmallVector<std::pair<Root, Container>> containers;

  Container &get(Root root) {
    auto found = llvm::find_if(containers, [&](const auto &known) { return known.first == root; });
    return found != containers.end() ? found->second : containers.emplace_back(root, Container()).second;
  }
};

struct CheckRacesPass : impl::CheckRacesBase<CheckRacesPass> {
  using Base::Base;

  void runOnOperation() override {
    checkSections();
    if (loops) checkLoops();
  }

  void checkSections() {
    llvm::MapVector<int32_t, Context> contexts;
    getOperation().walk([&](TaskOp task) {
      auto block = task->getAttrOfType<IntegerAttr>(kStreamBlock);
      auto number = block ? int32_t(block.getInt() >> 32) : 0;
      if (number) collect(task, int32_t(block.getInt()), contexts[number]);
    });
    for (auto &[number, context] : contexts)
      for (auto &[root, container] : context.containers) {
        bool mayRace = loops || container.isShared || container.sections.size() > 1;
        if (!container.isStored || !mayRace) continue;
        for (auto [access, section] : container.accesses) {
          OpBuilder builder(access);
          Value own = Code(builder, access.getLoc()).integer(section);
          claim(access, {own, artifact::kFirstContextClaim + number, "a section of qd.graph.parallel_context()", ""});
        }
      }
  }

  static void collect(TaskOp task, int32_t section, Context &context) {
    task.walk([&](MemoryAccessOpInterface access) {
      ElementOp element = access.writes() ? findElement(access.getRef()) : ElementOp();
      if (!element || element.getTensor().getDefiningOp<SharedOp>()) return;
      Context::Container &container = context.get(findRoot(access.getRef()));
      TensorArgumentOp argument = findContainer(element);
      container.accesses.emplace_back(access, section);
      container.sections.insert(section);
      container.isStored |= isStore(access);
      container.isShared |= argument && argument->hasAttr(kShares);
    });
  }

  void checkLoops() {
    unsigned number = 0;
    forEachParallelLoop(getOperation(), [&](ForOp loop) {
      SmallVector<MemoryAccessOpInterface> stores, updates;
      DenseSet<Root> stored;
      loop.walk([&](MemoryAccessOpInterface access) {
        if (!access.writes() || !isOfMany(access.getRef(), loop)) return;
        (isStore(access) ? stores : updates).push_back(access);
        if (isStore(access)) stored.insert(findRoot(access.getRef()));
      });
      llvm::erase_if(updates, [&](MemoryAccessOpInterface access) { return !stored.contains(findRoot(access.getRef())); });
      for (MemoryAccessOpInterface access : llvm::concat<MemoryAccessOpInterface>(stores, updates))
        claim(access, {loop.getBody().getArguments(), int32_t(number), "iteration (", ") of the parallel loop"});
      ++number;
    });
  }

  static bool isStore(MemoryAccessOpInterface access) {
    auto exchange = dyn_cast<CompareExchangeOp>(access.getOperation());
    return !access.isAtomic() || (exchange && exchange.getStores());
  }

  /// Whether other iterations can access the place, too.
  static bool isOfMany(Value place, ForOp loop) {
    // Accesses to block memory are not checked: the threads synchronize between them.
    if (ElementOp element = findElement(place)) return !element.getTensor().getDefiningOp<SharedOp>();
    Root root = findRoot(place);
    return root.kind == Root::Kind::Scratch ||
           (root.kind == Root::Kind::Local && !loop->isAncestor(reinterpret_cast<Operation *>(uintptr_t(root.id))));
  }

  static void claim(MemoryAccessOpInterface access, const Writer &writer) {
    OpBuilder builder(access);
    const bool stores = isStore(access);
    auto exchange = dyn_cast<CompareExchangeOp>(access.getOperation());
    Value part = exchange ? exchange.getPart() : Value();
    ElementOp element = findElement(access.getRef());
    AssertText text(builder.getContext());
    if (element) {
      TensorArgumentOp argument = findContainer(element);
      StringRef name = argument ? argument.getName() : StringRef("an array");
      if (part) text << "Data race: the element at bit " << part << " of a word, " + name;
      if (!part) text << "Data race: " + name;
      text.list(element.getIndices(), "[", "]");
    } else {
      text << "Data race: a variable from outside of the loop";
    }
    const std::string begin = (stores ? " is written by " : " is updated by ") + writer.name.str();
    const std::string end = writer.others.str() + (stores ? ", and by another one" : ", and written by another one");
    writer.others.empty() ? text << begin + end : text.list(writer.iteration, begin, end);
    Location loc = element ? element.getLoc() : access.getLoc();
    for (Value place : listComponents(Code(builder, loc), access.getRef()))
      ClaimOp::create(builder, loc, place, writer.iteration, uint32_t(stores ? writer.number : ~writer.number),
                      builder.getArrayAttr(text.fragments), text.values, part);
  }
};

} // namespace

} // namespace qd::passes
