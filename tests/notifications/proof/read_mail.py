"""Reads what the mail server kept with Python's own reader, as strict as it can be."""

import email
import email.policy
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

work = Path(sys.argv[1])
files = sorted(work.glob("*.received"))
assert len(files) == 4, f"{len(files)} messages"
seen = set()
for file in files:
    message = email.message_from_bytes(file.read_bytes(), policy=email.policy.SMTP.clone(raise_on_defect=True))
    assert not message.defects, message.defects
    subject, status = message["Subject"], message["X-Cookhouse-Status"]
    assert message["X-Envelope-From"] == "builds@studio.test", message["X-Envelope-From"]
    assert message["X-Envelope-To"] == str(message["To"]) == "ada@studio.test", message["X-Envelope-To"]
    assert message["Bcc"] is None and message["Cc"] is None
    assert message["From"].addresses[0].addr_spec == "builds@studio.test"
    assert re.fullmatch(r"<[0-9a-z]{24}@builds\.studio\.test>", message["Message-ID"]), message["Message-ID"]
    assert message["Date"].datetime is not None and message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "multipart/alternative"
    parts = list(message.iter_parts())
    assert [part.get_content_type() for part in parts] == ["text/plain", "text/html"]
    for part in parts:
        assert not part.defects, part.defects
    text, html = (part.get_content() for part in parts)
    first = " ".join(text.split("\n\n")[0].split())
    assert first.startswith(subject.rstrip("\u2026")[:100].rstrip()), (first, subject)

    class Shown(HTMLParser):
        links, words, tags = set(), [], set()

        def handle_starttag(self, tag, attributes):
            self.tags.add(tag)
            self.links.update(value for name, value in attributes if name in ("href", "src"))
            assert not any(name.startswith("on") for name, _ in attributes), attributes

        def handle_data(self, data):
            self.words.append(data)

    shown = Shown()
    shown.feed(html)
    assert all(link.startswith("https://builds.studio.test/v1/builds/") for link in shown.links), shown.links
    assert not shown.tags & {"script", "img", "form", "iframe", "input", "link", "object"}, shown.tags
    seen.add(status)
    print(f"{file.name}: {status:10} {subject}")
assert seen == {"failed", "complete", "cancelled"}, seen
print("four messages came over STARTTLS with a password, and are without a defect")
