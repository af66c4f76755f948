"""``crawlstream get``: one page, from a URL to a terminal or a file.

``one_page`` feeds the seed, waits for its reply and reads the record that the reply names
``recent``   a page that was fetched before, instead of a new one
``formats``  what is shown of the page
``picture``  its screenshot
``command``  the command, its messages and exit codes
"""
