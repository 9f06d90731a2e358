// sites.cpp: prints and assertions: what the code hands to the runtime, and what the runtime makes of it
#include "codegen/llvm/body.h"
#include "passes/source_places.h"

#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace qd::codegen {

int ModuleEmitter::getSite(Operation *op) {
  auto [entry, isNew] = sites.try_emplace(op, int(artifact.sites.size()));
  if (!isNew) return entry->second;
  artifact::Site site;
  ArrayAttr pieces;
  ValueRange operands;
  if (auto print = dyn_cast<ir::PrintOp>(op)) {
    site.kind = artifact::Site::Kind::Print;
    pieces = print.getPieces();
    operands = print.getValues();
    artifact.hasPrint = true;
  } else {
    auto assertion = cast<ir::AssertOp>(op);
    site.kind = artifact::Site::Kind(assertion.getKind());
    pieces = assertion.getPieces();
    operands = assertion.getValues();
  }
  size_t operand = 0;
  for (Attribute attribute : pieces) {
    artifact::Site::Piece piece;
    if (auto text = dyn_cast<StringAttr>(attribute)) {
      piece.text = text.getValue().str();
    } else {
      piece.isOperand = true;
      auto spec = cast<ArrayAttr>(attribute);
      if (!spec.empty()) piece.text = cast<StringAttr>(spec[0]).getValue().str();
      if (operand < operands.size()) piece.type = ir::getValueType(operands[operand++].getType());
    }
    site.pieces.push_back(std::move(piece));
  }
  passes::collectPlaces(op->getLoc(), site.frames);
  artifact.sites.push_back(std::move(site));
  return entry->second;
}

/// The operands of a site in memory, each component widened to 64 bits.
llvm::Value *BodyEmitter::packOperands(ValueRange operands, llvm::Value *lane) {
  llvm::SmallVector<llvm::Value *, 8> words;
  for (Value operand : operands) {
    Type scalar = ir::getScalar(operand.getType());
    for (const Component &component : Components(getValue(operand))) {
      llvm::Value *value = lanes == 1 ? component.value : getLane(component, lane);
      if (isa<FloatType>(scalar)) {
        value = builder.CreateBitCast(builder.CreateFPCast(value, builder.getDoubleTy()), builder.getInt64Ty());
      } else {
        value = builder.CreateIntCast(value, builder.getInt64Ty(), scalar.isSignedInteger());
      }
      words.push_back(value);
    }
  }
  llvm::Type *type = llvm::ArrayType::get(builder.getInt64Ty(), std::max<size_t>(words.size(), 1));
  llvm::Value *block = makeSlot(type, "operands");
  for (auto [i, word] : llvm::enumerate(words)) builder.CreateStore(word, builder.CreateConstGEP2_64(type, block, 0, i));
  return block;
}

static void callApi(BodyEmitter &body, ApiField field, int site, llvm::Value *operands) {
  llvm::IRBuilder<> &builder = body.builder;
  llvm::Value *pointer = builder.CreateConstGEP1_64(builder.getPtrTy(), body.getContextField(kApi), field);
  llvm::Value *routine = builder.CreateAlignedLoad(builder.getPtrTy(), pointer, llvm::Align(8));
  builder.CreateCall(body.module.getApiType(field), routine, {body.context, builder.getInt32(uint32_t(site)), operands});
}

LogicalResult BodyEmitter::emitPrint(ir::PrintOp op) {
  int site = module.getSite(op);
  auto print = [&](llvm::Value *lane) { callApi(*this, kPrint, site, packOperands(op.getValues(), lane)); };
  if (lanes == 1)
    print(nullptr);
  else
    forEachActiveLane(print);
  return success();
}

LogicalResult BodyEmitter::emitAssert(ir::AssertOp op) {
  int site = module.getSite(op);
  Component condition = getScalar(op.getCondition());
  llvm::Value *failing;
  if (condition.kind.isUniform()) {
    failing = builder.CreateNot(condition.value);
  } else {
    failing = builder.CreateNot(condition.value);
    failing = mask ? builder.CreateAnd(mask, failing) : failing;
  }
  llvm::BasicBlock *stop = makeBlock("failed"), *next = makeBlock("passed");
  llvm::MDNode *weights = llvm::MDBuilder(module.ctx).createUnlikelyBranchWeights();
  builder.CreateCondBr(condition.kind.isUniform() ? failing : isAny(failing), stop, next, weights);
  moveTo(stop);
  llvm::Value *lane = lanes == 1 ? nullptr : getFirstLane(condition.kind.isUniform() ? getMask() : failing);
  callApi(*this, kFail, site, packOperands(op.getValues(), lane));
  leaveFailed();
  moveTo(next);
  return success();
}

} // namespace qd::codegen
