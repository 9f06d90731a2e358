// lane_builder.h: builds the LLVM instructions of one function, for one lane or several
//
// Masks: `mask` is null while all lanes are active; with one lane it is always null. Code under a mask must have no effects in inactive
// lanes. A branch skips regions whose mask is empty, so uniform accesses need no mask.
#pragma once

#include "codegen/llvm/module_emitter.h"
#include "codegen/llvm/uniformity.h"
#include "codegen/llvm/values.h"

#include "llvm/IR/IRBuilder.h"

namespace qd::codegen {

class LaneBuilder {
public:
  LaneBuilder(ModuleEmitter &module, llvm::Function *function, unsigned lanes, const BodyFacts &facts);

  //--- Lanes ---
  llvm::Type *widen(llvm::Type *scalar) const;
  llvm::Type *widen(llvm::Type *scalar, LaneKind kind) const { return kind.isVarying() ? widen(scalar) : scalar; }
  /// The component in every lane, as a vector (one lane: the scalar).
  llvm::Value *toVector(const Component &component);
  /// A component of which lane i holds element i of `value`.
  Component makeVarying(llvm::Value *value) { return {value, manyLanes}; }
  /// One lane of a component.
  llvm::Value *getLane(const Component &component, llvm::Value *lane);
  llvm::Value *splat(llvm::Value *scalar);
  /// Code that is emitted from now on has so many lanes, and these facts.
  void setLanes(unsigned count, const BodyFacts &of);
  Component castIndex(const Component &component, mlir::Type from, llvm::Type *to);
  bool isDivergent(mlir::Operation *op) const { return lanes > 1 && facts->divergent.contains(op); }

  //--- Masks ---
  llvm::Value *getMask(); ///< never null
  llvm::Value *isAny(llvm::Value *lanesMask);
  llvm::Value *isAll(llvm::Value *lanesMask);
  llvm::Value *getFirstLane(llvm::Value *lanesMask);
  llvm::Value *getLastLane(llvm::Value *lanesMask);
  /// How many of the first `count` lanes a mask has, an i32.
  llvm::Value *countActive(llvm::Value *lanesMask, unsigned count);
  /// Emits `body` for each active lane, in order; `body` gets the lane's number (a constant with one lane).
  void forEachActiveLane(llvm::function_ref<void(llvm::Value *lane)> body);

  //--- Blocks ---
  llvm::BasicBlock *makeBlock(const llvm::Twine &name) { return llvm::BasicBlock::Create(module.ctx, name, function); }
  bool isTerminated() const { return builder.GetInsertBlock()->getTerminator() != nullptr; }
  /// Jumps to `target` unless the block has ended already.
  void branchTo(llvm::BasicBlock *target);
  void moveTo(llvm::BasicBlock *block) { builder.SetInsertPoint(block); }
  /// Ends the block with a jump to `target` and emits there from now on.
  void continueAt(llvm::BasicBlock *target);
  /// `if (condition) body(); else otherwise();`
  void emitWhen(llvm::Value *condition, const llvm::Twine &name, llvm::function_ref<void()> body,
                llvm::function_ref<void()> otherwise = nullptr, llvm::MDNode *weights = nullptr);
  /// A scalar loop over 0 … count - 1; returns the branch back.
  llvm::Instruction *emitCountedLoop(llvm::Value *count, llvm::function_ref<void(llvm::Value *i)> emitRound);
  static constexpr unsigned kAllRounds = ~0u;
  /// Attaches to the back edge of a loop how many iterations to unroll; kAllRounds: all, once LLVM knows how many they are.
  void setUnrolling(llvm::Instruction *back, unsigned rounds);

  //--- Memory ---
  /// A stack slot of the function.
  llvm::AllocaInst *makeSlot(llvm::Type *type, llvm::StringRef name = "");
  llvm::Value *offsetBy(llvm::Value *pointer, int64_t bytes) {
    return bytes == 0 ? pointer : builder.CreateConstGEP1_64(builder.getInt8Ty(), pointer, bytes);
  }
  /// The same address for code that accesses memory of any kind; unchanged if the target has no such pointers.
  llvm::Value *toGeneric(llvm::Value *pointer) {
    return module.spaces.hasGeneric ? builder.CreateAddrSpaceCast(pointer, builder.getPtrTy()) : pointer;
  }
  /// Loads memory that no store of the kernel changes: members of the context, arguments, captured values.
  llvm::LoadInst *loadInvariant(llvm::Type *type, llvm::Value *pointer, llvm::Align align = llvm::Align(8));

  ModuleEmitter &module;
  llvm::Function *function;
  unsigned lanes;
  unsigned usedLanes = lanes;   ///< the mask never has lanes from this one on
  bool takesRows = false;       ///< emitting vectors of several rows of a block
  bool isPartialVector = false; ///< emitting the masked copy of an iteration for the ends of a run
  LaneKind manyLanes;           ///< kind of a value that differs between lanes: uniform if there is only one lane
  const BodyFacts *facts;       ///< of the body that is being emitted
  llvm::IRBuilder<> builder;
  llvm::Value *mask = nullptr;
  llvm::Value *condition = nullptr; ///< of the innermost divergent `if`, for all lanes
};

/// Base of the classes that emit code into a function, each for one subject (body.h).
class EmitterPart {
protected:
  explicit EmitterPart(LaneBuilder &in) : in(in), builder(in.builder), module(in.module) {}

  LaneBuilder &in;
  llvm::IRBuilder<> &builder;
  ModuleEmitter &module;
};

} // namespace qd::codegen
