#include "backends/cpu/abandonable.h"
#include "backends/cpu/steps.h"
#include "codegen/llvm/emit.h"
#include "devlib/bitcode.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <set>

namespace qd::backends::cpu {

/// A routine of the device library is called instead of inlined when all its calls would add more instructions than this.
constexpr unsigned kMostInlined = 800;
/// Routines shorter than this are always inlined.
constexpr unsigned kShortRoutine = 24;

static void callRoutinesUsedOften(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (!function.hasFnAttribute(llvm::Attribute::AlwaysInline) || !function.getName().starts_with("qd_")) continue;
    unsigned size = function.getInstructionCount();
    if (size < kShortRoutine || function.getNumUses() * size <= kMostInlined) continue;
    function.removeFnAttr(llvm::Attribute::AlwaysInline);
    function.addFnAttr(llvm::Attribute::NoInline);
    function.setCallingConv(llvm::CallingConv::Fast);
    for (llvm::User *user : function.users())
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user)) call->setCallingConv(llvm::CallingConv::Fast);
  }
}

void linkDeviceLibrary(llvm::Module &module) {
  std::set<int> lanes;
  for (llvm::Function &function : module)
    if (int count; function.getName().starts_with("qd_") && !function.getName().rsplit('x').second.getAsInteger(10, count))
      lanes.insert(count);
  for (int count : lanes) {
    std::string_view bitcode = devlib::getBitcode(count);
    // Lazily: function bodies that nothing calls are never read.
    auto library = take(llvm::getLazyBitcodeModule(llvm::MemoryBufferRef({bitcode.data(), bitcode.size()}, "devlib"), module.getContext()));
    library->setTargetTriple(module.getTargetTriple());
    library->setDataLayout(module.getDataLayout());
    auto internalise = [](llvm::Module &linked, const llvm::StringSet<> &names) {
      llvm::internalizeModule(linked, [&](const llvm::GlobalValue &value) { return !value.hasName() || !names.count(value.getName()); });
    };
    if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded, internalise))
      throw std::runtime_error("the device library cannot be linked");
  }
  callRoutinesUsedOften(module);
}

void setProcessor(llvm::Module &module, const Processor &processor, llvm::TargetMachine &machine) {
  module.setTargetTriple(processor.triple);
  module.setDataLayout(machine.createDataLayout());
  std::string width = std::to_string(processor.traits.vectorBytes * 8);
  for (llvm::Function &function : module) {
    if (function.isIntrinsic()) continue;
    function.addFnAttr("target-cpu", processor.name);
    function.addFnAttr("target-features", processor.features);
    // Some processors are tuned for narrower registers by default; our loops are written for the widest.
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    function.setDoesNotThrow();
  }
}

namespace {

/// A pipeline for functions that have loops besides those over the iterations of a parallel loop, which nothing unrolls.
/// Saves a sixth of the time that the others take.
struct WithInnerLoops : llvm::PassInfoMixin<WithInnerLoops> {
  llvm::FunctionPassManager pipeline;

  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
    if (!function.hasFnAttribute(codegen::kHasInnerLoops)) return llvm::PreservedAnalyses::all();
    return pipeline.run(function, analyses);
  }
};

} // namespace

/// What runs over each function. Tuned for compile time: each pass is linear in practice, and there for what it does to emitted code:
/// locals become values (SROA), what the emitter computes twice is computed once (EarlyCSE), uniform work leaves the loops (LICM), short
/// loops of constant length are unrolled. Vectorisation is the emitter's.
static llvm::FunctionPassManager buildFunctionPipeline() {
  llvm::FunctionPassManager pipeline;
  pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  pipeline.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  pipeline.addPass(llvm::SimplifyCFGPass());
  pipeline.addPass(llvm::InstCombinePass());

  llvm::LoopPassManager hoisting;
  hoisting.addPass(llvm::LoopRotatePass());
  hoisting.addPass(llvm::LICMPass(llvm::LICMOptions()));
  pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(hoisting), /*UseMemorySSA=*/true));
  WithInnerLoops inner;
  llvm::LoopPassManager unrolling;
  unrolling.addPass(llvm::IndVarSimplifyPass());
  unrolling.addPass(llvm::LoopFullUnrollPass());
  inner.pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(unrolling)));
  // Unrolling makes component indices constant: their arrays become values only now.
  inner.pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  inner.pipeline.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  pipeline.addPass(std::move(inner));

  pipeline.addPass(llvm::InstCombinePass());
  pipeline.addPass(llvm::DSEPass());
  pipeline.addPass(llvm::SimplifyCFGPass());
  pipeline.addPass(llvm::ADCEPass());
  return pipeline;
}

/// The code generator looks for each literal among all literals of the function. Of this many on they are read from a table instead, which
/// costs an instruction for each.
constexpr unsigned kManyLiterals = 4096;

/// The float that an operand is in every lane; null for other operands, and for zero, which needs no memory.
static llvm::ConstantFP *findLiteral(llvm::Value *operand) {
  auto *constant = llvm::dyn_cast<llvm::Constant>(operand);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto *literal = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return literal && !literal->isZero() ? literal : nullptr;
}

/// Puts the literals of a function that has many into tables, one for each type.
static void tabulateLiterals(llvm::Function &function) {
  llvm::MapVector<llvm::Type *, llvm::MapVector<llvm::ConstantFP *, llvm::SmallVector<llvm::Use *, 2>>> tables;
  for (llvm::Instruction &instruction : llvm::instructions(function)) {
    if (llvm::isa<llvm::PHINode, llvm::IntrinsicInst>(instruction)) continue;
    for (llvm::Use &use : instruction.operands())
      if (llvm::ConstantFP *literal = findLiteral(use)) tables[literal->getType()][literal].push_back(&use);
  }
  for (auto &[type, literals] : tables) {
    if (literals.size() < kManyLiterals) continue;
    auto *listType = llvm::ArrayType::get(type, literals.size());
    llvm::SmallVector<llvm::Constant *> values(llvm::make_first_range(literals));
    auto *table = new llvm::GlobalVariable(*function.getParent(), listType, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                           llvm::ConstantArray::get(listType, values), "literals");
    // Else the loads would become literals again.
    table->setExternallyInitialized(true);
    for (auto [index, entry] : llvm::enumerate(literals)) {
      for (llvm::Use *use : entry.second) {
        llvm::IRBuilder<> builder(llvm::cast<llvm::Instruction>(use->getUser()));
        llvm::LoadInst *load = builder.CreateLoad(type, builder.CreateConstInBoundsGEP2_64(listType, table, 0, index));
        load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(function.getContext(), {}));
        auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(use->get()->getType());
        use->set(vector ? builder.CreateVectorSplat(vector->getNumElements(), load) : load);
      }
    }
  }
}

/// Parts of the code generator take time that grows with the square of a block's length: they walk all uses of a constant in it. So
/// blocks are cut into pieces of this many instructions.
constexpr unsigned kLongestBlock = 512;

/// Cuts a long block by branches that are never taken but that nobody can fold: they test a zero of which the code generator knows nothing.
/// Costs three instructions for each piece.
static void splitLongBlock(llvm::BasicBlock &block, llvm::BasicBlock *&never) {
  std::vector<llvm::Instruction *> cuts;
  unsigned count = 0;
  for (llvm::Instruction &instruction : block) {
    if (++count % kLongestBlock == 0 && !llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction) && !instruction.isTerminator())
      cuts.push_back(&instruction);
  }
  if (count < 2 * kLongestBlock) return;
  llvm::Function &function = *block.getParent();
  llvm::LLVMContext &ctx = function.getContext();
  if (!never) {
    never = llvm::BasicBlock::Create(ctx, "never", &function);
    new llvm::UnreachableInst(ctx, never);
  }
  llvm::Type *number = llvm::Type::getInt32Ty(ctx);
  auto *type = llvm::FunctionType::get(number, {number}, false);
  llvm::InlineAsm *unknown = llvm::InlineAsm::get(type, "", "=r,0", false);
  // From the last cut to the first: each cut moves what stands behind it.
  for (llvm::Instruction *cut : llvm::reverse(cuts)) {
    llvm::BasicBlock *rest = block.splitBasicBlock(cut->getIterator(), "piece");
    block.getTerminator()->eraseFromParent();
    llvm::IRBuilder<> builder(&block);
    builder.CreateCondBr(builder.CreateIsNotNull(builder.CreateCall(type, unknown, builder.getInt32(0))), never, rest);
  }
}

static void splitLongBlocks(llvm::Module &module) {
  for (llvm::Function &function : module) {
    llvm::BasicBlock *never = nullptr;
    for (llvm::BasicBlock &block : llvm::make_early_inc_range(function)) splitLongBlock(block, never);
  }
}

namespace {

/// What passes ask about the code, by the unit of code.
struct Analyses {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;

  explicit Analyses(llvm::TargetMachine &machine) : builder(&machine) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
  }
};

} // namespace

void optimise(llvm::Module &module, llvm::TargetMachine &machine, int optLevel) {
  Abandonable owned(std::make_unique<Analyses>(machine));
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::AlwaysInlinerPass(/*InsertLifetime=*/false));
  pipeline.addPass(llvm::GlobalDCEPass());
  if (optLevel > 0) pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(buildFunctionPipeline()));
  pipeline.run(module, owned->modules);
  for (llvm::Function &function : module) tabulateLiterals(function);
  // Last: nothing after it may join the pieces.
  splitLongBlocks(module);
}

} // namespace qd::backends::cpu
