"""Translates PTX text to IR: lexing, grammar (with Lark), scopes, lowering."""
