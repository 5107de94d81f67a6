"""PTX text to IR: lexing, grammar (lark's door), scopes, lowering."""
