// loop_checkpoints.h: the states of a loop's variables that its forward sweep stores for its backward sweep
#pragma once

#include "ir/code.h"

#include "llvm/ADT/SetVector.h"

namespace qd::passes {

using ir::Code;

/// Locals of the loop that stores checkpoints: the iteration that gets the next one, and the distance to the one after it.
struct Spacing {
  mlir::Value stride, next;
};

class LoopCheckpoints {
public:
  /// Which iterations have a checkpoint.
  enum class Policy {
    All,      ///< each; its number is that of its slot
    EveryNth, ///< each if they fit, which `holdsAll` tells at run time; otherwise every n-th, where the length of the loop determines n
    Thinning, ///< every n-th; n grows as the loop runs, because its length is unknown
  };
  using GetPlace = llvm::function_ref<mlir::Value(mlir::Value place)>;

  /// Chooses the policy and makes the slots. `length`: number of iterations, if it is a constant.
  void allocate(Code code, std::optional<int64_t> length, bool mayExit, llvm::function_ref<mlir::Value(mlir::Type)> makeLocal);

  //--- Forward sweep ---
  /// Before the loop: no slot is used. `length`: maximum number of iterations; `zero` and `one`: constants.
  Spacing begin(Code code, mlir::Value length, mlir::Value zero, mlir::Value one) const;
  /// At the start of an iteration: stores its state if the policy gives it a checkpoint.
  void save(Code code, llvm::ArrayRef<mlir::Value> state, mlir::Value number, const Spacing &spacing) const;

  //--- Backward sweep ---
  void restore(Code code, mlir::Value slot, GetPlace getPlace) const;
  /// The last used slot, and its iteration. `one`: a constant, here and below.
  std::pair<mlir::Value, mlir::Value> findLast(Code code, mlir::Value one) const;
  /// Before iterations `from` to `to` are computed again: spreads the free slots behind `slot` over them.
  Spacing spread(Code code, mlir::Value one, mlir::Value slot, mlir::Value from, mlir::Value to) const;
  void saveIfFree(Code code, llvm::ArrayRef<mlir::Value> state, mlir::Value number, const Spacing &spacing) const;
  /// Frees the last slot if it belongs to iteration `number`, which is restored.
  void release(Code code, mlir::Value one, mlir::Value number) const;

  llvm::SetVector<mlir::Value> liveIn;                ///< places from before the loop that its iterations use
  llvm::SetVector<mlir::Value> carried;               ///< live-ins that an iteration may read after an earlier one wrote them
  llvm::DenseMap<mlir::Value, mlir::Value> invariant; ///< live-ins that iterations only read → a copy from before the loop
  int32_t number = 0;                                 ///< number of the loop, for reports
  mlir::Value count;                                  ///< number of iterations that ran; null if the bounds determine it
  Policy policy = Policy::All;
  int64_t slotCount = 0;
  mlir::Value holdsAll; ///< EveryNth: whether all iterations fit, and the number of each is that of its slot

private:
  void store(Code code, llvm::ArrayRef<mlir::Value> state, mlir::Value slot) const;
  void saveIfDue(Code code, llvm::ArrayRef<mlir::Value> state, mlir::Value number, const Spacing &spacing, bool thins) const;
  void thinOut(Code code, mlir::Value stride) const;

  llvm::DenseMap<mlir::Value, mlir::Value> slots; ///< carried → array of its values at the start of some iterations
  mlir::Value positions, used;                    ///< EveryNth and Thinning: iteration of each slot, and number of used slots
};

} // namespace qd::passes
