"""x"""
def quote_re2(text: str) -> str:
    return "".join(c if c.isalnum() or ord(c) > 127 else "\\" + c if c != "\n" else "\\n" for c in text)
