// body.h: the emitter of one LLVM function
//
// BodyEmitter walks structured IR and appends LLVM instructions, for one lane or several. Begin reading at emitOp (body.cpp). Its members
// are spread over files by subject: control.cpp and loops.cpp (masks, control flow), memory.cpp (locals and containers), operators.cpp and
// math.cpp, vectors.cpp, atomics.cpp, functions.cpp, block_ops.cpp, sites.cpp. The emitters of tasks (task.cpp, grid_task.cpp) create it.
//
// Masks: `mask` is null while all lanes are active; with one lane it is always null. Code under a mask must have no effects in inactive
// lanes. A branch skips regions whose mask is empty, so uniform accesses need no mask.
#pragma once

#include "codegen/llvm/module_emitter.h"
#include "codegen/llvm/uniformity.h"
#include "codegen/llvm/values.h"

#include "llvm/IR/IRBuilder.h"

#include <deque>
#include <optional>

namespace qd::codegen {

class BodyEmitter {
public:
  BodyEmitter(ModuleEmitter &module, llvm::Function *function, unsigned lanes, const BodyFacts &facts);

  void emitBlock(mlir::Block &block);
  void emitOp(mlir::Operation *op);

  //--- Values ---
  const Components &getValue(mlir::Value value);
  Component getScalar(mlir::Value value) { return getValue(value)[0]; }
  Components getScalars(mlir::ValueRange values);
  void setValue(mlir::Value value, Components components) { values[value] = std::move(components); }
  /// A scalar with the same value in all lanes; the value must be uniform.
  llvm::Value *getUniform(mlir::Value value);
  llvm::Type *widen(llvm::Type *scalar) const;
  llvm::Type *widen(llvm::Type *scalar, LaneKind kind) const { return kind.isVarying() ? widen(scalar) : scalar; }
  /// The component in every lane, as a vector (one lane: the scalar).
  llvm::Value *toVector(const Component &component);
  /// A component of which lane i holds element i of `value`.
  Component makeVarying(llvm::Value *value) { return {value, manyLanes}; }
  /// One lane of a component.
  llvm::Value *getLane(const Component &component, llvm::Value *lane);
  llvm::Value *splat(llvm::Value *scalar);
  Component castIndex(const Component &component, mlir::Type from, llvm::Type *to);

  //--- Places ---
  LocalStorage *makeLocal(mlir::Type pointee, llvm::ArrayRef<LaneKind> kinds, llvm::StringRef name = "");
  llvm::AllocaInst *makeSlot(llvm::Type *type, llvm::StringRef name = "");
  Place getPlace(mlir::Value ref);
  void setPlace(mlir::Value ref, Place place) { places[ref] = std::move(place); }
  Tensor getTensor(mlir::Value tensor);
  void setTensor(mlir::Value value, Tensor tensor) { tensors[value] = tensor; }
  /// Number of the tile that contains an index; the axis begins at `first`, a tile has `length` indices.
  Component getTile(const Component &index, int64_t first, int64_t length);
  Place getElement(const Tensor &tensor, llvm::ArrayRef<Component> indices, mlir::TypeRange types);
  Place getComponent(const Place &place, llvm::ArrayRef<Component> indices, mlir::TypeRange types);
  llvm::Value *getExtent(const Tensor &tensor, int64_t axis);
  /// Bytes from element to element along each axis.
  llvm::SmallVector<llvm::Value *, 4> getStrides(const Tensor &tensor);
  Components load(const Place &place) { return place.local ? loadLocal(place) : loadMemory(place); }
  void store(const Place &place, const Components &value, bool masked);
  llvm::Value *offsetBy(llvm::Value *pointer, int64_t bytes) {
    return bytes == 0 ? pointer : builder.CreateConstGEP1_64(builder.getInt8Ty(), pointer, bytes);
  }
  /// Loads memory that no store of the kernel changes: members of the context, arguments, captured values.
  llvm::LoadInst *loadInvariant(llvm::Type *type, llvm::Value *pointer, llvm::Align align = llvm::Align(8));
  /// Components of a packed value in memory that belongs to no container.
  Components loadPacked(mlir::Type type, llvm::Value *pointer, bool invariant);
  void storePacked(mlir::Type type, const Components &value, llvm::Value *pointer);
  llvm::Value *getContextField(ContextField field);
  /// Whether only one thread accesses the memory that this function changes, as an i1; read once.
  llvm::Value *isSingleThreaded();
  llvm::Value *getLaunchField(ContextField field);
  llvm::CallInst *callRuntime(ApiField field, llvm::ArrayRef<llvm::Value *> operands);
  /// Loads an address in memory that all threads share.
  llvm::Value *loadAddress(llvm::Value *pointer);

  //--- Operators on LLVM values (scalars or vectors) of the language's types ---
  llvm::Value *emitUnary(ir::UnaryKind kind, mlir::Type type, llvm::Value *value);
  llvm::Value *emitBinary(ir::BinaryKind kind, mlir::Type lhsType, mlir::Type rhsType, llvm::Value *lhs, llvm::Value *rhs);
  /// Whether an add, sub, mul or shl of integers leaves the range of the type.
  llvm::Value *emitOverflows(ir::BinaryKind kind, mlir::Type type, llvm::Value *lhs, llvm::Value *rhs);
  llvm::Value *emitCast(mlir::Type from, mlir::Type to, llvm::Value *value);
  llvm::Value *emitDoubleToHalf(llvm::Value *value, llvm::Type *target);
  /// Updates a place: emits a choice at run time between `plain` (single-threaded) and `atomic`, or one of them if known. Both give the old
  /// value.
  llvm::Value *emitUpdate(const Place &place, llvm::function_ref<llvm::Value *()> plain, llvm::function_ref<llvm::Value *()> atomic);
  llvm::Value *emitAtomicAt(ir::AtomicKind kind, mlir::Type type, llvm::Value *pointer, llvm::Value *value, const Place &place);
  llvm::Value *emitLocked(ir::AtomicKind kind, mlir::Type type, llvm::Value *pointer, llvm::Value *value);
  llvm::Value *emitAtomicCombine(ir::AtomicKind kind, mlir::Type type, llvm::Value *old, llvm::Value *value);
  Components combineAll(ir::AtomicKind kind, mlir::Type type, const Components &old, const Components &value);
  llvm::Constant *getIdentity(ir::AtomicKind kind, mlir::Type type);
  Component combine(ir::BinaryKind kind, mlir::Type type, const Component &lhs, const Component &rhs);
  Component select(const Component &condition, const Component &a, const Component &b);
  /// Combines all lanes, in a fixed order.
  llvm::Value *reduceLanes(ir::AtomicKind kind, mlir::Type type, llvm::Value *vector);

  //--- Masks and control ---
  llvm::Value *getMask(); ///< never null
  llvm::Value *isAny(llvm::Value *mask);
  llvm::Value *getFirstLane(llvm::Value *mask);
  llvm::Value *getLastLane(llvm::Value *mask);
  /// Emits `body` for each active lane, in order; `body` gets the lane's number (a constant with one lane).
  void forEachActiveLane(llvm::function_ref<void(llvm::Value *lane)> body);
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
  /// Ends the launch if `failing` holds, with the message of the site of `op`; `failing` is uniform.
  void failWhen(llvm::Value *failing, const llvm::Twine &name, mlir::Operation *op);
  void leaveIfFailed();
  /// Ends the function if the launch was canceled; emits nothing on targets with grids.
  void leaveIfCanceled();

  /// One iteration of a loop: `next` is where `continue` goes.
  void emitLoopBody(mlir::Operation *op, mlir::Region &body, llvm::BasicBlock *next);
  /// Attaches to the back edge of a loop how many iterations to unroll.
  void setUnrolling(llvm::Instruction *back, unsigned rounds);
  /// A scalar loop over 0 … count - 1.
  void emitCountedLoop(llvm::Value *count, llvm::function_ref<void(llvm::Value *i)> emitRound);

  //--- State ---
  ModuleEmitter &module;
  llvm::Function *function;
  const unsigned lanes;
  const LaneKind manyLanes; ///< kind of a value that differs between lanes: uniform if there is only one lane
  const BodyFacts *facts;
  llvm::IRBuilder<> builder;
  llvm::Value *context = nullptr;
  llvm::Value *mask = nullptr;
  /// Flattened index of the iteration in lane 0; null in serial code and in code without random numbers.
  Component iteration;
  llvm::AllocaInst *randomCalls = nullptr;
  /// Index of the first of neighboring columns, a multiple of `columns`; the indices of accesses may add constants to it.
  llvm::Value *firstColumn = nullptr;
  int64_t columns = 1;
  llvm::Value *singleThreaded = nullptr; ///< see isSingleThreaded
  int task = 0;
  llvm::Value *thread = nullptr;     ///< QdThread, in blocks that the processor runs
  llvm::Value *stackLimit = nullptr; ///< i64, in recursive functions on the processor: the lowest address that the stack may reach
  bool isPartialVector = false;      ///< emitting the masked copy of an iteration for the ends of a run
  bool isInBlock = false;            ///< the function runs one thread of a block
  llvm::Value *blockSize = nullptr, *blockIndex = nullptr, *blockCount = nullptr; ///< i32; on the processor
  uint32_t branch = 0;                                                            ///< number of the grid's task: see artifact::DeviceTask
  /// Supplies what is defined outside of this function: places, containers and values of the enclosing task. False if the value is unknown.
  std::function<bool(mlir::Value)> resolve;
  /// Ends the function early, after a failed check.
  std::function<void()> leaveFailed;
  /// Ends the kernel at one of its own qd.return operations.
  std::function<void(ir::ReturnOp)> leaveKernel;

private:
  friend class AxisLoop;
  struct Scope {
    enum class Kind { Function, Loop, Iteration } kind;
    llvm::BasicBlock *exit;
    llvm::Value *live = nullptr; ///< slot of the mask of lanes that are still in the scope; set if lanes leave the scope at different times
  };

  /// Which copy of a nest of loops is being emitted (loops.cpp).
  enum class NestVersion { None, Short, Long } nestVersion = NestVersion::None;

  /// Whether `map` has the value, after asking `resolve` if necessary.
  template <typename T> bool isKnown(llvm::DenseMap<mlir::Value, T> &map, mlir::Value value);

  /// Marks the code emitted between these two calls as an outlined region (outlined_regions.h).
  void beginRegion();
  void endRegion();

  // loops.cpp, control.cpp
  void emitIf(ir::IfOp op);
  void emitFor(ir::ForOp op);
  void emitNest(ir::ForOp op);
  llvm::Value *findLongNest(ir::ForOp op);
  bool hoist(mlir::Value value, ir::ForOp nest);
  llvm::Value *isLongAxis(ir::ForOp op, unsigned axis, double maxRounds);
  unsigned chooseUnrolling(ir::ForOp op);
  void emitForAxis(ir::ForOp op, unsigned axis, llvm::BasicBlock *done);
  void emitWhile(ir::WhileOp op);
  void emitDeparture(mlir::Operation *op, Scope::Kind target);
  void emitReturn(ir::ReturnOp op);
  void emitMasked(llvm::Value *condition, mlir::Region &region);
  bool expectUniform(mlir::Operation *op, const Component &condition);
  void narrowAfter(mlir::Operation *op, llvm::Value *before);
  llvm::Value *makeLive(llvm::StringRef name);
  llvm::Value *loadMask(llvm::Value *slot) { return builder.CreateLoad(widen(builder.getInt1Ty()), slot); }
  bool isDivergent(mlir::Operation *op) const { return lanes > 1 && facts->divergent.contains(op); }
  bool isCheap(mlir::Region &region);

  // memory.cpp
  Components loadMemory(const Place &place);
  void storeMemory(const Place &place, const Components &value);
  Components loadLocal(const Place &place);
  void storeLocal(const Place &place, const Components &value, bool masked);
  llvm::Value *getPointers(const Place &place, int64_t offset);
  llvm::Value *getLanePointer(const Place &place, int64_t offset, unsigned lane);
  llvm::SmallVector<llvm::Value *, 4> loadLanes(const Place &place, int64_t offset, unsigned count, llvm::Type *type, llvm::Align align);
  llvm::Value *joinScalars(llvm::ArrayRef<llvm::Value *> values);
  void storeLanes(const Place &place, int64_t offset, llvm::ArrayRef<llvm::Value *> parts, llvm::Align align);
  llvm::Value *getLocalPointers(const LocalStorage &local, const Component &index);
  llvm::Value *fromMemory(mlir::Type scalar, llvm::Value *value);
  llvm::Value *toMemory(mlir::Type scalar, llvm::Value *value);

  // vectors.cpp
  Components emitVectorOp(mlir::Operation *op);
  Components emitMatmul(ir::MatmulOp op);
  /// Number of a component in row-major order.
  Component getPosition(mlir::VectorType shape, llvm::ArrayRef<Component> indices, mlir::TypeRange types);
  /// Whether an index equals `position`.
  Component isAt(const Component &index, size_t position);
  Component choose(llvm::ArrayRef<Component> components, const Component &index);

  // operators.cpp, math.cpp
  Components emitConstant(mlir::TypedAttr value);
  Components emitElementwise(mlir::Operation *op);
  Component apply(const Component &operand, llvm::function_ref<llvm::Value *(llvm::Value *)> compute);
  llvm::Value *callDevlib(llvm::StringRef name, mlir::Type type, llvm::ArrayRef<llvm::Value *> operands);
  llvm::Value *emitMath(ir::UnaryKind kind, mlir::Type type, llvm::Value *value);
  llvm::Value *emitFma(mlir::Type type, llvm::Value *x, llvm::Value *y, llvm::Value *z);
  llvm::Value *emitDivision(ir::BinaryKind kind, mlir::Type type, llvm::Value *lhs, llvm::Value *rhs);
  llvm::Value *emitPower(mlir::Type type, mlir::Type rhsType, llvm::Value *lhs, llvm::Value *rhs);
  Component emitRandom(mlir::Type type);
  llvm::Value *emitThreadIndex();

  // atomics.cpp
  Components emitAtomic(ir::AtomicOp op);
  bool canAddOncePerWarp(ir::AtomicOp op, mlir::Type type);
  llvm::Value *addOncePerWarp(ir::AtomicKind kind, const Place &place, llvm::Value *value);
  bool canAddAsVector(ir::AtomicOp op, const Place &place);
  Components addAsVector(const Place &place, Components values, bool isDifference);
  Component emitCompareExchange(ir::CompareExchangeOp op);
  Component emitAtomicScalar(ir::AtomicOp op, const Place &place, mlir::Type type, const Component &value);
  Component updateLanes(const Place &place, mlir::Type type, bool wantsOld,
                        llvm::function_ref<llvm::Value *(llvm::Value *pointer, llvm::Value *lane)> update);

  // functions.cpp
  void emitCall(ir::CallOp op);
  void leaveIfStackIsFull(ir::CallOp op);
  Components emitInlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts);
  Components emitOutlined(ir::CallOp op, ir::FuncOp callee, const BodyFacts &calleeFacts, llvm::ArrayRef<LaneKind> kinds);

  // block_ops.cpp
  void emitBlockOp(mlir::Operation *op);
  Components emitThreadOp(mlir::Operation *op);
  llvm::Value *emitShuffle(llvm::Value *value, llvm::Value *lane, bool again);
  void emitShared(ir::SharedOp op);

  // sites.cpp
  void emitPrint(ir::PrintOp op);
  void emitAssert(ir::AssertOp op);
  void emitClaim(ir::ClaimOp op);
  llvm::Value *packOperands(mlir::ValueRange operands, llvm::Value *lane);
  void callSite(ApiField field, int site, mlir::ValueRange operands, llvm::Value *lane);

  llvm::DenseMap<mlir::Value, Components> values;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, Tensor> tensors;
  std::deque<LocalStorage> storages;
  llvm::SmallVector<Scope, 8> scopes;
  struct RegionStart {
    llvm::BasicBlock *call;
    int64_t sizeBefore;
  };
  llvm::SmallVector<RegionStart, 4> regionStarts; ///< outlined regions that are being emitted, outermost first
  int64_t emittedSize = 0;                        ///< operations emitted so far, without outlined regions that have ended
  bool cutsBlocks = false;                        ///< the code that is being emitted is long enough to outline

public:
  /// Where the function instance that is being emitted stores its results; both null in a kernel.
  struct Returns {
    LocalStorage *slots = nullptr; ///< one per component, if there are several returns or an early one
    Components *values = nullptr;  ///< results of the only return, which ends the function
  };
  LocalStorage *makeResults(ir::FuncOp callee, const BodyFacts &calleeFacts);
  Components loadResults(const LocalStorage &results);
  void emitFunctionBody(ir::FuncOp callee, Returns returns, llvm::BasicBlock *exit);

private:
  Returns returns;
  llvm::SmallVector<mlir::Operation *, 4> inlinedCalls; ///< calls whose functions are being inlined, outermost first
};

} // namespace qd::codegen
