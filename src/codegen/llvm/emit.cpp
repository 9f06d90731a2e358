// emit.cpp: the emitter of a module, with the entry of a kernel
//
// In:   lowered IR that split_tasks has cut into tasks.
// Out:  an LLVM module: `qd_kernel`, which calls the function of each task, or one entry per task (targets with grids).
// Here: everything that spans tasks. cpu/task.cpp and grid/task.cpp emit one task.
#include "codegen/llvm/emit.h"

#include "codegen/llvm/module_emitter.h"
#include "codegen/llvm/tasks.h"

#include "ir/attributes.h"
#include "ir/gates.h"
#include "passes/source_locations.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Verifier.h"

using namespace mlir;

namespace qd::codegen {

/// A kernel for processors with more calls of a device library routine shares its code.
constexpr unsigned kInlinedCalls = 6;

uint32_t layoutResults(TypeRange types, std::vector<artifact::Artifact::Result> &results) {
  uint32_t offset = 0;
  for (Type type : types) {
    const artifact::Artifact::Result &result = results.emplace_back(ir::getValueType(type), offset);
    offset += uint32_t(result.type.componentCount() * int64_t(support::getByteSize(result.type.scalar)) + 7) / 8 * 8;
  }
  return offset;
}

ModuleEmitter::ModuleEmitter(ModuleOp source, llvm::LLVMContext &ctx, const passes::TargetTraits &traits, const GridTarget *grid,
                             const EmitOptions &options, artifact::Artifact &artifact)
    : source(source), calls(source), ctx(ctx), traits(traits), grid(grid), spaces(grid ? grid->getAddressSpaces() : AddressSpaces()),
      options(options), module(std::make_unique<llvm::Module>("quadrants", ctx)), uniformity(calls), functions(calls, !traits.hasGrids),
      aliases(source, ctx), artifact(artifact) {
  if (options.lineTables) lines.emplace(*module, /*directivesOnly=*/traits.hasGrids);
}

llvm::Type *ModuleEmitter::getType(Type scalar) const {
  if (scalar.isF16()) return llvm::Type::getHalfTy(ctx);
  if (scalar.isF32() || scalar.isBF16()) return llvm::Type::getFloatTy(ctx);
  if (scalar.isF64()) return llvm::Type::getDoubleTy(ctx);
  return llvm::Type::getIntNTy(ctx, scalar.getIntOrFloatBitWidth());
}

llvm::Type *ModuleEmitter::getMemoryType(Type scalar) const {
  if (scalar.isBF16()) return llvm::Type::getInt16Ty(ctx);
  return scalar.isInteger(1) ? llvm::Type::getInt8Ty(ctx) : getType(scalar);
}

uint32_t ModuleEmitter::addScratch(uint32_t bytes) {
  uint32_t offset = (artifact.scratchBytes + 7) / 8 * 8;
  artifact.scratchBytes = offset + bytes;
  return offset;
}

llvm::Function *ModuleEmitter::makeFunction(llvm::Type *result, ArrayRef<llvm::Type *> parameters, const llvm::Twine &name) {
  return llvm::Function::Create(llvm::FunctionType::get(result, parameters, false), llvm::GlobalValue::InternalLinkage, name, *module);
}

InFlightDiagnostic ModuleEmitter::reportError(Location loc) {
  hasFailed = true;
  return emitError(loc);
}

llvm::Function *ModuleEmitter::getDevlib(StringRef name, Type type, unsigned lanes, llvm::Type *result, ArrayRef<llvm::Type *> operands) {
  std::string symbol = ("qd_" + name + "_" + llvm::Twine(support::getName(ir::getScalarType(type))) + "x" + llvm::Twine(lanes)).str();
  auto callee = module->getOrInsertFunction(symbol, llvm::FunctionType::get(result, operands, false));
  auto *function = cast<llvm::Function>(callee.getCallee());
  function->setDoesNotAccessMemory();
  function->setDoesNotThrow();
  function->setWillReturn();
  return function;
}

/// Routines of the device library are inlined by default. A routine with many calls in the kernel is compiled once instead.
static void limitInlining(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (!function.isDeclaration() || function.isIntrinsic() || function.getNumUses() <= kInlinedCalls) continue;
    for (llvm::User *user : function.users())
      if (auto call = dyn_cast<llvm::CallInst>(user)) call->addFnAttr(llvm::Attribute::NoInline);
  }
}

/// Reports the checkpoints that gradients store for the loops that they reverse.
static void collectCheckpoints(ModuleOp source, std::vector<artifact::CheckpointReport> &reports) {
  std::map<int64_t, int64_t> bytes;
  source.walk([&](ir::LocalOp local) {
    if (auto number = local->getAttrOfType<IntegerAttr>(ir::kCheckpoints)) {
      Type states = cast<ir::RefType>(local.getType()).getPointee();
      bytes[number.getInt()] += ir::getComponentCount(states) * int64_t(support::getByteSize(ir::getScalarType(ir::getScalar(states))));
    }
  });
  source.walk<WalkOrder::PreOrder>([&](ir::ForOp loop) {
    auto checkpoints = loop->getAttrOfType<DenseI32ArrayAttr>(ir::kCheckpoints);
    if (!checkpoints) return;
    artifact::CheckpointReport &report = reports.emplace_back();
    passes::collectLocations(loop.getLoc(), report.frames);
    report.bytes = uint32_t(bytes[checkpoints[0]]);
    report.states = report.bytes ? uint32_t(checkpoints[1]) : 0;
    report.keepsAll = checkpoints[2] != 0;
  });
}

//--- The kernel ---

void ModuleEmitter::emit() {
  auto kernels = source.getOps<ir::KernelOp>();
  if (kernels.empty()) return void(reportError(source.getLoc()) << "has no kernel");
  ir::KernelOp kernel = *kernels.begin();
  llvm::SmallVector<Type, 4> resultTypes(kernel.getResultTypes().getAsValueRange<TypeAttr>());
  artifact.resultBytes = layoutResults(resultTypes, artifact.results);
  artifact.scratchBytes = kernel.getScratchBytes();
  argumentBytes = kernel.getArgumentBytes();
  refuseMissingFeatures(*this);
  if (hasFailed) return;
  traits.hasGrids ? emitGrids(kernel.getBody().front(), /*isRepeated=*/false) : emitTaskFunctions(kernel);
  // On GPUs a call takes registers from all that surrounds it. Only long routines are shared there (link_device_library.cpp).
  if (!traits.hasGrids) limitInlining(*module);
  collectCheckpoints(source, artifact.report.checkpoints);
  if (lines) lines->finish();
}

/// Offset of a repeat's condition in the scratch block.
static uint32_t getConditionSlot(ir::RepeatOp repeat) { return repeat.getCondition().getDefiningOp<ir::ScratchOp>().getOffset(); }

/// Kind and user's name of a task, for profiles.
static std::string describeTask(ir::TaskOp task) {
  std::string text = task.getParallel() ? "range_for" : "serial";
  for (ir::ForOp loop : task.getBody().front().getOps<ir::ForOp>())
    if (loop.getName()) return text + "_" + loop.getName()->str();
  return text;
}

void ModuleEmitter::emitGrids(Block &block, bool isRepeated) {
  for (Operation *op = block.empty() ? nullptr : &block.front(); op; op = op->getNextNode()) {
    auto index = uint32_t(artifact.tasks.size());
    if (auto repeat = dyn_cast<ir::RepeatOp>(op)) {
      size_t number = artifact.repeats.size();
      artifact.repeats.push_back({index, index, getConditionSlot(repeat), findBranch(repeat)});
      emitGrids(repeat.getBody().front(), /*isRepeated=*/true);
      artifact.repeats[number].endTask = uint32_t(artifact.tasks.size());
    } else if (auto task = dyn_cast<ir::TaskOp>(op)) {
      llvm::SmallVector<ir::TaskOp> together = findSmallTasks(*this, task);
      aliases.forgetWritten();
      for (ir::TaskOp member : together) aliases.addWritten(member, calls);
      for (ir::TaskOp member : together) {
        emitGridTask(*this, member, grids.entryCount++, !isRepeated && !member->getNextNode());
        if (hasFailed) return;
      }
      mergeTasks(*this, index);
      if (options.timed) artifact.taskNames.push_back(describeTask(task));
      op = together.back();
    } else if (!isa<ir::ScratchOp>(op)) {
      return void(reportError(op->getLoc()) << "stands in a kernel outside of a task");
    }
    if (hasFailed) return;
  }
}

namespace {
/// Emits the function that calls the tasks in order and runs the repeats.
class EntryEmitter {
public:
  explicit EntryEmitter(ModuleEmitter &module) : module(module), builder(module.ctx) {}

  void emit(ir::KernelOp kernel) {
    auto *type = llvm::FunctionType::get(builder.getVoidTy(), {builder.getPtrTy()}, false);
    entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "qd_kernel", *module.module);
    builder.SetInsertPoint(makeBlock("entry"));
    exit = makeBlock("exit");
    emitBlock(kernel.getBody().front());
    builder.CreateBr(exit);
    builder.SetInsertPoint(exit);
    builder.CreateRetVoid();
  }

private:
  void emitBlock(Block &block) {
    for (Operation &op : block) {
      if (auto repeat = dyn_cast<ir::RepeatOp>(op)) {
        emitRepeat(repeat);
      } else if (auto task = dyn_cast<ir::TaskOp>(op)) {
        llvm::Function *function = getFunction(task, index++);
        if (module.hasFailed) return;
        llvm::BasicBlock *next = makeBlock("next");
        if (auto gate = task->getAttrOfType<IntegerAttr>(ir::kGate)) emitGate(task, unsigned(gate.getInt()), next);
        llvm::Value *isLast = builder.CreateCall(function, {entry->getArg(0)});
        if (module.options.timed) {
          callRuntime(kFinishTask, {builder.getInt32(unsigned(index - 1))});
          module.artifact.taskNames.push_back(describeTask(task));
        }
        builder.CreateCondBr(isLast, exit, next);
        builder.SetInsertPoint(next);
      } else if (!isa<ir::ScratchOp>(op)) {
        return void(module.reportError(op.getLoc()) << "stands in a kernel outside of a task");
      }
    }
  }

  /// The function of a task. Tasks that differ in their place in the source only, as those of an unrolled loop, share one, which is
  /// compiled once. Those that report places, or draw random numbers, do not.
  llvm::Function *getFunction(ir::TaskOp task, int number) {
    using Equivalence = OperationEquivalence;
    std::vector<artifact::LoopReport> &loops = module.artifact.report.loops;
    llvm::hash_code hash(0);
    task->walk([&](Operation *op) {
      hash = llvm::hash_combine(
          hash, Equivalence::computeHash(op, Equivalence::ignoreHashValue, Equivalence::ignoreHashValue, Equivalence::IgnoreLocations));
    });
    llvm::SmallVector<Emitted, 1> &alike = emitted[size_t(hash)];
    for (const Emitted &other : alike) {
      if (!Equivalence::isEquivalentTo(other.task, task, Equivalence::IgnoreLocations)) continue;
      if (other.loop) loops.push_back(artifact::LoopReport(loops[*other.loop]));
      if (other.loop) passes::collectLocations(findLoop(module, task).getLoc(), loops.back().frames = {});
      return other.function;
    }
    const size_t sites = module.artifact.sites.size(), loop = loops.size();
    llvm::Function *function = emitTask(module, task, number);
    if (sites == module.artifact.sites.size() && !module.lines && !module.calls.contains(task.getBody(), llvm::IsaPred<ir::RandomOp>))
      alike.push_back({task, function, loops.size() > loop ? std::optional(loop) : std::nullopt});
    return function;
  }

  void emitGate(ir::TaskOp task, unsigned number, llvm::BasicBlock *after) {
    llvm::BasicBlock *run = makeBlock("run");
    llvm::Value *scratch = loadMember(entry->getArg(0), kContextOffsets[kScratch], builder.getPtrTy());
    llvm::Value *slot = builder.CreateConstGEP1_64(builder.getInt8Ty(), scratch, ir::getPositionSlot(task));
    builder.CreateCondBr(builder.CreateICmpSGT(builder.CreateLoad(builder.getInt32Ty(), slot), builder.getInt32(number)), after, run);
    builder.SetInsertPoint(run);
  }

  void emitRepeat(ir::RepeatOp repeat) {
    llvm::BasicBlock *round = makeBlock("round"), *judge = makeBlock("judge"), *done = makeBlock("done");
    builder.CreateBr(round);
    builder.SetInsertPoint(round);
    emitBlock(repeat.getBody().front());
    callRuntime(kFinishRound, {builder.getInt32(repeat->hasAttr(ir::kStreamBlock))});
    llvm::Value *context = entry->getArg(0);
    llvm::Value *failed = loadMember(context, kContextOffsets[kFailed], builder.getInt32Ty(), /*isVolatile=*/true);
    builder.CreateCondBr(builder.CreateTrunc(failed, builder.getInt1Ty()), exit, judge); // QD_STOP is its lowest bit
    builder.SetInsertPoint(judge);
    llvm::Value *scratch = loadMember(context, kContextOffsets[kScratch], builder.getPtrTy());
    llvm::Value *slot = builder.CreateConstGEP1_64(builder.getInt8Ty(), scratch, getConditionSlot(repeat));
    builder.CreateCondBr(builder.CreateIsNotNull(builder.CreateLoad(builder.getInt8Ty(), slot)), round, done);
    builder.SetInsertPoint(done);
  }

  void callRuntime(ApiField field, llvm::ArrayRef<llvm::Value *> operands) {
    llvm::SmallVector<llvm::Value *, 2> all{entry->getArg(0)};
    llvm::append_range(all, operands);
    llvm::SmallVector<llvm::Type *, 2> types = llvm::map_to_vector<2>(all, [](llvm::Value *value) { return value->getType(); });
    llvm::Value *api = loadMember(entry->getArg(0), kContextOffsets[kApi], builder.getPtrTy());
    llvm::Value *routine = loadMember(api, kApiMembers[field].offset, builder.getPtrTy());
    builder.CreateCall(llvm::FunctionType::get(builder.getVoidTy(), types, false), routine, all);
  }

  llvm::Value *loadMember(llvm::Value *object, size_t offset, llvm::Type *type, bool isVolatile = false) {
    return builder.CreateLoad(type, builder.CreateConstGEP1_64(builder.getInt8Ty(), object, offset), isVolatile);
  }
  llvm::BasicBlock *makeBlock(const char *name) { return llvm::BasicBlock::Create(module.ctx, name, entry); }

  ModuleEmitter &module;
  llvm::IRBuilder<> builder;
  llvm::Function *entry = nullptr;
  llvm::BasicBlock *exit = nullptr;
  int index = 0;
  struct Emitted {
    ir::TaskOp task;
    llvm::Function *function;
    std::optional<size_t> loop; ///< index of its report
  };
  llvm::DenseMap<size_t, llvm::SmallVector<Emitted, 1>> emitted; ///< by hash
};
} // namespace

void ModuleEmitter::emitTaskFunctions(ir::KernelOp kernel) {
  EntryEmitter(*this).emit(kernel);
  if (hasFailed) return;
  for (auto &[function, list] : outlinedRegions) outlineRegions(*function, list);
}

std::unique_ptr<llvm::Module> emitModule(ModuleOp module, llvm::LLVMContext &ctx, const passes::TargetTraits &traits,
                                         const GridTarget *grid, const EmitOptions &options, artifact::Artifact &artifact) {
  ModuleEmitter emitter(module, ctx, traits, grid, options, artifact);
  emitter.emit();
  return emitter.hasFailed ? nullptr : std::move(emitter.module);
}

} // namespace qd::codegen
