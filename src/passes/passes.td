// passes.td: the passes over qd IR, one record each. pipeline.cpp defines their order and gives the reasons.
#ifndef QD_PASSES_TD
#define QD_PASSES_TD

include "mlir/Pass/PassBase.td"

class QdPass<string name> : Pass<name, "::mlir::ModuleOp">;

def NormalizeExits : QdPass<"qd-normalize-exits"> {
  let summary = "for { … continue … break … } => for { … live = false … if (live) { … } … if (broken) break }. The same for return.";
  let description = [{
    Afterwards functions return only at their end, and the only break of a loop is in an `if` at its end.
  }];
}

def DifferentiateReverse : QdPass<"qd-differentiate-reverse"> {
  let summary = "y = f(x) => x.grad += f'(x) * y.grad, for the operations of a kernel marked `reverse`, last to first.";
  let description = [{
    Parallel loops stay parallel. Values of an iteration are recomputed; serial loops store their variables at the start of iterations as
    checkpoints in local arrays (adjoint_loops.cpp).
  }];
}

def DifferentiateForward : QdPass<"qd-differentiate-forward"> {
  let summary = "y = f(x) => y = f(x); y.dual = f'(x) * x.dual, for the operations of a kernel marked `forward`.";
}

def CheckBarriers : QdPass<"qd-check-barriers"> {
  let summary = "if (thread < 10) { barrier } => error: the other threads of the block never reach the barrier.";
  let description = "Loops whose blocks have another number of threads than an operation requires are errors, too.";
  let options = [Option<"block", "block", "int64_t", "128", "Threads of a block where the loop does not say">];
}

def StripAsserts : QdPass<"qd-strip-asserts"> {
  let summary = "qd.assert => nothing";
  let description = "Outside debug mode the user's assertions have no effect.";
}

def ReuseLoads : QdPass<"qd-reuse-loads"> {
  let summary = "load(x, i); load(x, i) => load(x, i), for containers that the kernel does not write.";
}

def WidenSerialLoops : QdPass<"qd-widen-serial-loops"> {
  let summary = "for => for parallel, on one thread, if the iterations are independent.";
  let description = [{
    Iterations are independent along an axis if every access to a container that the loop writes has the index of that axis at the same
    position, mostly the last one. That axis becomes the outermost. Loops with few iterations stay serial. A loop inside a parallel loop
    becomes its last axis or, with others beside it, is marked as one along rows.
  }];
  let options = [Option<"reassociated", "reassociated", "bool", "true", "Sums of floats may be taken in another order">];
}

def MergeNestedLoops : QdPass<"qd-merge-nested-loops"> {
  let summary = "for parallel i { for j } => for parallel i, j, if the iterations of j are independent.";
  let description = [{
    For grids: a thread for each iteration of both loops. Other loops inside are marked if they are along rows. WidenSerialLoops does the
    same for processors. Loops with a given number of threads stay as they are.
  }];
  let options = [Option<"reassociated", "reassociated", "bool", "true", "Sums of floats may be taken in another order">,
                 Option<"beforeDerivatives", "before-derivatives", "bool", "false", "Change kernels that will be differentiated, and no others">,
                 Option<"ofOwnElements", "of-own-elements", "bool", "false", "Merge only if no two iterations read the same float">];
}

def GatherUpdates : QdPass<"qd-gather-updates"> {
  let summary = "for parallel i { for j { x[j] += a } } => for parallel j { for i { sum += a }; x[j] += sum }.";
  let description = [{
    Iterations of the parallel loop add to elements of their own then; on grids, to elements that few others share. What the updates do not
    need stays in the loop as it was.
  }];
  let options = [Option<"reassociated", "reassociated", "bool", "true", "Sums of floats may be taken in another order">,
                 Option<"onGrid", "on-grid", "bool", "false", "Sums are split so that there are threads for a whole device">];
}

def SplitUpdates : QdPass<"qd-split-updates"> {
  let summary = "for i { x[i] += a; x[i + 1] += b } => for i { x[i + 1] += b }; for i { x[i] += a }, for processors.";
  let description = [{
    No two iterations of each loop update the same element then, so that no update needs to be atomic.
  }];
}

def MarkCompactions : QdPass<"qd-mark-compactions"> {
  let summary = "for i: if keep: { out[n] = x[i]; n += 1 } => the same, marked to run in lanes.";
  let description = [{
    Marks the serial loops that compact (kLanes), with their stores at a counter and of it (kCompacts). If there are any, loops whose
    iterations store elements of their own at neighboring places are marked, too: code of one lane is around both.
  }];
  let options = [Option<"reassociated", "reassociated", "bool", "true", "Sums of floats may be taken in another order">];
}

def AssumeUnaliased : QdPass<"qd-assume-unaliased"> {
  let summary = "kernel => kernel whose written arrays are unaliased.";
  let description = [{
    Lists written arrays that share no memory with other inputs of the launch which is compiled for. Targets with grids only: a thread
    has no other work while it waits for a load again that a store to another array cannot have changed.
  }];
}

def CheckBounds : QdPass<"qd-check-bounds"> {
  let summary = "element(x, i) => assert(0 <= i < extent(x)); element(x, i). The same for components.";
  let description = [{
    Constants and loop indices that are within the extent are not checked. Without `all`, only elements marked kChecked are.
  }];
  let options = [Option<"all", "all", "bool", "true", "Check all elements and components">];
}

def CheckArithmetic : QdPass<"qd-check-arithmetic"> {
  let summary = "x + y => assert(x + y fits); x + y. The same for all integer arithmetic, shift counts and conversions of floats.";
  let options = [Option<"overflow", "overflow", "bool", "true", "Check sums, differences, products, powers, shifts left, negations and quotients">,
                 Option<"reports", "reports", "bool", "false", "Print overflows and go on">];
}

def CheckNans : QdPass<"qd-check-nans"> {
  let summary = "x / y => x / y; assert(no NaN unless x or y is one). The same for all floating-point arithmetic.";
}

def CheckRaces : QdPass<"qd-check-races"> {
  let summary = "store(x, element) => claim(element, iteration); store(x, element) in parallel loops and in sections of parallel contexts.";
  let options = [Option<"loops", "loops", "bool", "true", "Check loops, and all stores in sections; else only those to containers that "
                        "several sections write">];
}

def SplitTasks : QdPass<"qd-split-tasks"> {
  let summary = "A parallel qd.task for each outermost parallel loop, a serial one for the statements between two loops.";
  let description = [{
    Values and locals that cross tasks get a slot of the scratch block. Cheap and pure operations are recomputed instead:
    constants, argument reads, extents, places, short integer arithmetic on these.
    A local that a parallel loop only reads is loaded once, before the loop.
  }];
}

def DemoteAtomics : QdPass<"qd-demote-atomics"> {
  let summary = "atomic(place, value) => store(op(load(place), value), place) if only one iteration updates the place.";
  let description = [{
    Applies to serial tasks, to locals of an iteration, and to elements whose indices contain all indices of the parallel loop, each on the
    same axis with the same constant shift in all atomics on that container.
  }];
}

def HoldElements : QdPass<"qd-hold-elements"> {
  let summary = "store(a, x[i]); load(x[i]) => v = x[i]; v = a; v; x[i] = v, for elements that one iteration of a parallel loop accesses.";
  let description = [{
    For processors. Applies to elements that every iteration stores and that one may read after a store. Arrays are assumed to be unaliased.
  }];
}

def DistributeRows : QdPass<"qd-distribute-rows"> {
  let summary = "for parallel i { for j } => for parallel i, thread { for j = thread, thread + n, … }, for marked loops.";
  let description = [{
    For grids: a subgroup of threads takes an iteration of the parallel loop, and each thread a part of every row.
  }];
  let options = [Option<"threads", "threads", "int64_t", "32", "Threads of a subgroup">,
                 Option<"reassociated", "reassociated", "bool", "true", "Sums of floats may be taken in another order">];
}

def PrivatizeReductions : QdPass<"qd-privatize-reductions"> {
  let summary = "atomic(place, value) => atomic(accumulator(place), value); atomic(x[i], value) => atomic(private_copy(x)[i], value).";
  let description = [{
    Applies to places and containers that the loop accesses only by atomics of one kind whose results are not used. `sub` becomes `add` of
    the negative.
  }];
}

#endif
