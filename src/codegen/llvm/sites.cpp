// sites.cpp: prints, assertions and checks: their sites, and the calls that report their values to the runtime
//
// In:   qd.print, qd.assert and other checks, under the present mask.
// Out:  rows of the artifact's table of sites, and calls for the lanes that reach them.
#include "codegen/llvm/sites.h"
#include "passes/source_locations.h"

#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

int ModuleEmitter::getSite(Operation *op, ArrayRef<Operation *> calls) {
  std::vector<Operation *> chain(calls);
  chain.push_back(op);
  auto [entry, isNew] = sites.try_emplace(chain, int(artifact.sites.size()));
  if (!isNew) return entry->second;
  artifact::Site &site = artifact.sites.emplace_back();
  for (Operation *place : chain) passes::collectLocations(place->getLoc(), site.frames);
  auto assertion = dyn_cast<ir::AssertOp>(op);
  auto print = dyn_cast<ir::PrintOp>(op);
  using Kind = artifact::Site::Kind;
  if (isa<ir::CallOp>(op)) {
    site.kind = Kind::Recursion;
    site.fragments.emplace_back().text =
        "maximum recursion depth exceeded in the kernel " + artifact.kernel +
        ": the stack of the thread has no room for one more call. Let the calls end earlier, or write them as "
        "a loop with a stack of its own";
    return entry->second;
  }
  if (isa<ir::ForOp>(op)) {
    site.kind = Kind::Assert;
    site.fragments.emplace_back().text = artifact::kTooManyIterations;
    return entry->second;
  }
  site.kind = !print                ? Kind(assertion ? assertion.getKind() : uint32_t(Kind::Assert))
              : print.getToStderr() ? Kind::PrintError
                                    : Kind::Print;
  artifact.hasPrint |= print || (assertion && assertion.getReports());
  ValueRange operands = assertion ? assertion.getValues() : print ? print.getValues() : cast<ir::ClaimOp>(op).getValues();
  for (Attribute attribute : op->getAttrOfType<ArrayAttr>("fragments")) {
    artifact::Site::Fragment &fragment = site.fragments.emplace_back();
    if (auto text = dyn_cast<StringAttr>(attribute)) {
      fragment.text = text.getValue().str();
      continue;
    }
    if (isa<UnitAttr>(attribute)) {
      fragment.isThread = true;
      continue;
    }
    fragment.isOperand = true;
    if (auto spec = cast<ArrayAttr>(attribute); !spec.empty()) fragment.text = cast<StringAttr>(spec[0]).getValue().str();
    if (operands.empty()) continue;
    fragment.type = ir::getValueType(operands.front().getType());
    operands = operands.drop_front();
  }
  return entry->second;
}

/// Stores the operands of a site in memory, each component widened to 64 bits.
llvm::Value *Sites::packOperands(ValueRange operands, llvm::Value *lane) {
  llvm::SmallVector<llvm::Value *, 8> words;
  for (Value operand : operands) {
    Type scalar = ir::getScalar(operand.getType());
    for (const Component &component : Components(values.getValue(operand))) {
      llvm::Value *value = in.lanes == 1 ? component.value : in.getLane(component, lane);
      if (isa<FloatType>(scalar)) value = builder.CreateBitCast(builder.CreateFPCast(value, builder.getDoubleTy()), builder.getInt64Ty());
      words.push_back(builder.CreateIntCast(value, builder.getInt64Ty(), scalar.isSignedInteger()));
    }
  }
  llvm::Type *type = llvm::ArrayType::get(builder.getInt64Ty(), std::max<size_t>(words.size(), 1));
  llvm::AllocaInst *block = in.makeSlot(type, "operands");
  // Set here, because the target's layout is not known yet. LLVM stores words of smaller alignment in halves, and an assembler miscompiles
  // these if the word is a float.
  block->setAlignment(llvm::Align(8));
  for (auto [i, word] : llvm::enumerate(words))
    builder.CreateAlignedStore(word, builder.CreateConstGEP2_64(type, block, 0, i), llvm::Align(8));
  return block;
}

/// Passes a site and its operands to the runtime or (targets with grids) to routines that record them for the host.
void Sites::callSite(ApiField field, int site, ValueRange operands, llvm::Value *lane) {
  llvm::Value *number = builder.getInt32(uint32_t(site)), *block = packOperands(operands, lane);
  if (!module.traits.hasGrids) return void(launch.callRuntime(field, {number, block}));
  uint64_t count = module.artifact.sites[size_t(site)].countValues();
  llvm::Type *pointer = builder.getPtrTy(), *i32 = builder.getInt32Ty();
  auto *type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, i32, pointer, i32}, false);
  llvm::FunctionCallee routine = module.module->getOrInsertFunction(field == kFail ? "qd_leave_failure_x1" : "qd_leave_print_x1", type);
  auto cast = [&](llvm::Value *address) { return builder.CreateAddrSpaceCast(address, pointer); };
  builder.CreateCall(routine, {cast(launch.context), number, cast(block), builder.getInt32(uint32_t(count))});
}

void Sites::emitPrint(ir::PrintOp op) {
  int site = module.getSite(op, inlinedCalls);
  in.forEachActiveLane([&](llvm::Value *lane) { callSite(kPrint, site, op.getValues(), lane); });
}

void Sites::emitAssert(ir::AssertOp op) {
  int site = module.getSite(op, inlinedCalls);
  Component condition = values.getScalar(op.getCondition());
  bool isUniform = condition.kind.isUniform();
  llvm::Value *failing = builder.CreateNot(condition.value);
  if (!isUniform && in.mask) failing = builder.CreateAnd(in.mask, failing);
  auto fail = [&] {
    llvm::Value *lane = in.lanes == 1 ? nullptr : in.getFirstLane(isUniform ? in.getMask() : failing);
    callSite(op.getReports() ? kPrint : kFail, site, op.getValues(), lane);
    if (!op.getReports()) launch.leaveFailed();
  };
  in.emitWhen(isUniform ? failing : in.isAny(failing), "failed", fail, nullptr, llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights());
}

void Sites::failWhen(llvm::Value *failing, const llvm::Twine &name, Operation *op) {
  auto fail = [&] {
    callSite(kFail, module.getSite(op, inlinedCalls), {}, nullptr);
    launch.leaveFailed();
  };
  in.emitWhen(failing, name, fail, nullptr, llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights());
}

void Sites::emitClaim(ir::ClaimOp op) {
  int site = module.getSite(op, inlinedCalls);
  const auto place = std::get<MemoryPlace>(values.getPlace(op.getRef()));
  llvm::Type *word = builder.getInt64Ty();
  in.forEachActiveLane([&](llvm::Value *lane) {
    auto valueOf = [&](const Component &component) { return in.lanes == 1 ? component.value : in.getLane(component, lane); };
    llvm::Value *address = builder.CreatePtrToInt(place.base, word);
    if (llvm::Value *offsets = place.findOffsets())
      address = builder.CreateAdd(address, builder.CreateSExt(builder.CreateExtractElement(offsets, lane), word));
    else if (in.lanes > 1)
      address =
          builder.CreateAdd(address, builder.CreateMul(builder.CreateZExt(lane, word), builder.getInt64(uint64_t(place.getLaneStride()))));
    address = builder.CreateShl(address, 3); // in bits
    if (Value part = op.getPart()) address = builder.CreateAdd(address, builder.CreateZExt(valueOf(values.getScalar(part)), word));
    // A number that differs between iterations: no loop has indices so far apart that two iterations get the same number.
    llvm::Value *iteration = builder.getInt64(0);
    for (Value index : op.getIteration())
      iteration = builder.CreateAdd(builder.CreateMul(iteration, builder.getInt64(0x9E3779B97F4A7C15)),
                                    builder.CreateIntCast(valueOf(values.getScalar(index)), word, index.getType().isSignedInteger()));
    launch.callRuntime(kClaim, {builder.getInt32(uint32_t(site)), packOperands(op.getValues(), lane), address,
                                builder.getInt32(uint32_t(op.getLoop())), iteration});
  });
}

} // namespace qd::codegen
