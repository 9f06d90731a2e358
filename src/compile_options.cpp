// compile_options.cpp: the options of qd.init → the options of the passes and of the target
//
// In:   the options of the current program.
// Out:  the options of each half. They are dependent: a check, for instance, turns off what would change the iteration that it reports.
#include "compile_options.h"

#include "support/processors.h"

#include <algorithm>

namespace qd {

using support::Option;

passes::PipelineOptions makePipelineOptions(const support::Options &options) {
  passes::PipelineOptions result;
  result.debug = options.getBool(Option::debug);
  const std::string &overflow = options.getText(Option::overflow);
  result.checkOverflow = overflow != "ignore";
  result.reportOverflow = overflow == "print";
  result.checkBounds = result.debug || options.getBool(Option::check_out_of_bound);
  result.checkNans = options.getBool(Option::check_nan);
  result.checkRaces = options.getBool(Option::check_races);
  result.privatize = options.getBool(Option::make_thread_local);
  // A failed check must report the first failing iteration.
  result.specialize = result.compacts =
      options.getInt(Option::opt_level) > 0 && !result.debug && !result.checkBounds && !result.checkNans && !result.checkRaces;
  result.reassociate = options.getBool(Option::fast_math);
  result.blockSize = options.getInt(Option::default_gpu_block_dim);
  result.verify = options.getBool(Option::verify);
  return result;
}

backends::TargetOptions makeTargetOptions(const support::Options &options) {
  backends::TargetOptions result;
  result.fastMath = options.getBool(Option::fast_math);
  result.parallel = options.getBool(Option::make_cpu_multithreading_loop);
  result.threads = unsigned(std::clamp<int64_t>(options.getInt(Option::num_compile_threads), 1, support::countProcessors()));
  result.verify = options.getBool(Option::verify);
  result.optLevel = int(options.getInt(Option::opt_level));
  result.pieceSize = options.getInt(Option::piece_size);
  result.lineTables = !options.getText(Option::line_tables).empty();
  result.timed = options.getBool(Option::kernel_profiler);
  result.blockSize = int(options.getInt(Option::default_gpu_block_dim));
  if (int64_t limit = options.getInt(Option::max_block_dim); limit > 0)
    result.maxThreads = int(std::min<int64_t>(limit, result.maxThreads));
  return result;
}

} // namespace qd
