// SPDX-License-Identifier: Apache-2.0
// Counts that several ops share.
#include "src/step/work.h"

#include "src/step/block_group.h"
#include "src/step/edges/edges.h"

#include <cmath>

namespace norn::step {
namespace {

// How many units the entries of a batch touch, where popular units are much more popular.
struct RowTouches {
  double touched = 0.0;   // units with an entry
  double returned = 0.0;  // of them, those without one in the batch before
};

// Expected values when unit i occurs as often as 1 / (i + 10), as in the probe of a step.
RowTouches expected_touches(double entries, Index units) {
  constexpr int kPieces = 4096;
  constexpr double kFirst = 10.0;
  const double top = std::log(double(units) / kFirst + 1.0);
  RowTouches touches;
  for (int piece = 0; piece < kPieces; ++piece) {
    const double rank = kFirst * std::exp((double(piece) + 0.5) / kPieces * top);
    const double units_here = rank * top / kPieces;
    const double touched = -std::expm1(-entries / (rank * top));
    touches.touched += units_here * touched;
    touches.returned += units_here * touched * (1.0 - touched);
  }
  return touches;
}

RowTouches touches(const StepFacts& facts, int edge) {
  const int source = facts.edge(edge).source;
  return expected_touches(double(facts.batch()) * facts.entries(source),
                          facts.layer(source).units());
}

double entries(const StepFacts& facts, int edge) {
  return double(facts.batch()) * facts.entries(facts.edge(edge).source);
}

}  // namespace

double WorkList::own_weights(int edge) const {
  const Edge& e = facts_.edge(edge);
  if (facts_.by_source(edge))
    return double(facts_.units(e.source)) * double(facts_.layer(e.destination).units());
  return double(facts_.layer(e.source).units()) * double(facts_.units(e.destination));
}

double WorkList::operand_bytes() const {
  return facts_.device().precision.casts_operands() ? kBf16 : kFloat;
}

double WorkList::update_bytes(int edge) const {
  return 2.0 * kFloat * (1.0 + double(facts_.slots(edge)));
}

double WorkList::unit_update_bytes() const {
  return 2.0 * kFloat * (1.0 + double(facts_.unit_slots()));
}

double WorkList::calls_for(int layer) const {
  return facts_.on_gpu() && !facts_.is_output(layer) ? 1.0
                                                     : double(facts_.own_blocks(layer).count());
}

double WorkList::output_calls(int layer) const {
  const Index at_once =
      facts_.may_fuse_delta(layer) ? blocks_at_once(facts_.partition(layer), facts_.batch()) : 1;
  return std::ceil(double(facts_.own_blocks(layer).count()) / double(at_once));
}

double WorkList::calls_of(int edge) const {
  const Edge& e = facts_.edge(edge);
  return facts_.by_source(edge) ? double(facts_.own_blocks(e.source).count())
                                : calls_for(e.destination);
}

void WorkList::product(const char* stage, int edge, double calls) {
  const double weights = own_weights(edge);
  add({.kind = Work::Kind::product,
       .stage = stage,
       .flops = 2.0 * batch() * weights,
       .bytes = weights * operand_bytes(),
       .calls = calls,
       .edge = edge});
}

void WorkList::loss_product(const char* stage, int layer, double calls) {
  product(stage, facts_.matrices(layer)[0], calls);
  list_.back().kind = Work::Kind::loss_product;
  list_.back().evaluated = rows_of(layer);
}

void WorkList::pre_activations(const char* stage, int layer) {
  for (int edge : facts_.matrices(layer))
    if (facts_.is_sparse_source(edge))
      sparse_forward(edge);
    else if (!facts_.by_source(edge))
      product(stage, edge, calls_for(layer));
  for (int edge : facts_.unit_edges(layer))
    with_edge(facts_.edge(edge).kind, [&]<typename Room>(std::type_identity<Room>) {
      pass(stage, rows_of(layer) * Room::kForwardBytes, calls_for(layer));
      if constexpr (requires { Room::flops(facts_, edge); })
        list_.back().flops = batch() * Room::flops(facts_, edge);
    });
}

void WorkList::backward_by_unit(const char* stage, int layer) {
  for (int edge : facts_.unit_edges(layer))
    with_edge(facts_.edge(edge).kind, [&]<typename Room>(std::type_identity<Room>) {
      if constexpr (requires { Room::flops(facts_, edge); }) {
        pass(Room::kBackwardStage, rows_of(layer) * Room::kBackwardBytes, calls_for(layer));
        list_.back().flops = batch() * Room::flops(facts_, edge);
        partial_sums(batch() * double(facts_.layer(facts_.edge(edge).source).units()),
                     double(facts_.own_blocks(layer).count()));
      } else {
        pass(stage, rows_of(layer) * Room::kBackwardBytes, calls_for(layer));
      }
    });
}

void WorkList::sparse_forward(int edge) {
  const double units = double(facts_.units(facts_.edge(edge).destination));
  const double all = entries(facts_, edge);
  add({.stage = "sparse forward",
       .flops = 2.0 * all * units,
       .bytes = touches(facts_, edge).touched * units * kFloat,
       .gathered = all * units * kFloat,
       .edge = edge});
}

void WorkList::catch_up_rows(int edge) {
  const double units = double(facts_.units(facts_.edge(edge).destination));
  add({.kind = Work::Kind::rows,
       .stage = "rows caught up",
       .bytes = touches(facts_, edge).returned * units * update_bytes(edge),
       .edge = edge});
}

void WorkList::partial_sums(double elements, double partial_sums) {
  const double at_once = facts_.on_gpu() ? double(PartialSums::kMost) : 1.0;
  const double sums = std::ceil(partial_sums / at_once);
  pass("fixed point", elements * (partial_sums * kFloat + sums * 2.0 * kWord), sums);
}

void WorkList::input_delta(const char* stage, int edge) {
  const Edge& e = facts_.edge(edge);
  if (facts_.is_input(e.source)) return;
  product(stage, edge, calls_of(edge));
  if (facts_.by_source(edge))
    partial_sums(rows_of(e.source), 1.0);
  else
    partial_sums(batch() * double(facts_.layer(e.source).units()),
                 double(facts_.own_blocks(e.destination).count()));
}

void WorkList::update_rows(int edge) {
  const double units = double(facts_.units(facts_.edge(edge).destination));
  const double all = entries(facts_, edge);
  const double touched = touches(facts_, edge).touched * units;
  add({.kind = Work::Kind::rows,
       .stage = "sparse update",
       .flops = 2.0 * all * units,
       .bytes = touched * update_bytes(edge),
       .gathered = all * units * operand_bytes(),
       .calls = 3.0,
       .edge = edge,
       .updated = touched});
}

// Of an output layer only the last call's update may be late.
void WorkList::update(const char* stage, int edge) {
  if (facts_.is_sparse_source(edge)) return update_rows(edge);
  const int layer = facts_.edge(edge).destination;
  const double weights = own_weights(edge);
  const bool shared = facts_.is_shared(edge);
  const double last = facts_.is_output(layer) ? 1.0 / output_calls(layer) : 1.0;
  add({.kind = Work::Kind::update,
       .stage = stage,
       .flops = 2.0 * batch() * weights,
       .bytes = weights * (shared ? kFloat : update_bytes(edge)),  // shared: the gradient
       .calls = calls_of(edge),
       .edge = edge,
       .updated = shared ? 0.0 : weights,
       .late = facts_.by_source(edge) || shared ? 0.0 : last});
}

}  // namespace norn::step
