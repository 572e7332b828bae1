"""Whole-graph export: a captured call as an `ExportedProgram` with named dimensions."""
