"""What became of each part of a prompt that was sent before?"""
