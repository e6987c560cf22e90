"""How the window looks: tokens -> palette, style sheet, fonts, icons, device colours."""
